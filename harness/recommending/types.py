"""The wish and the recommendation, also as a table, and the command that uses a choice."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from prmcal.db.overview.types import UNKNOWN, Quantity

if TYPE_CHECKING:
    import pandas as pd


WantedKind = Literal["accuracy", "samples", "tokens"]


@dataclass(frozen=True)
class Wanted:
    """The wish: an accuracy in (0, 1), or the most samples or generated tokens of a question on average."""

    kind: WantedKind
    value: float

    @property
    def text(self) -> str:
        """The wish in words."""
        if self.kind == "accuracy":
            return f"an accuracy of {self.value:g}"
        return f"at most {self.value:,g} {'samples' if self.kind == 'samples' else 'generated tokens'} per question"


@dataclass(frozen=True)
class Choice:
    """A strategy with its setting and its models, for new questions, by their names in the grid.

    A strategy that the grid does not have goes by its registered name, with its default arguments.
    """

    llm: str
    strategy: str
    samples: int
    """N, the most samples of a question."""
    prm: str = ""
    calibrator: str = ""
    """Both are empty if the strategy reads nothing of them."""
    level: float | None = None
    """The level beta of the rewards, if the strategy reads rewards at one level."""
    target: float | None = None
    """The target probability C, if the strategy has one."""
    fixed: bool = False
    """True if every question gets N samples."""
    mean_samples: int | None = None
    """The most samples of a question on average, for ``safe choice``."""

    @property
    def setting(self) -> str:
        """The strategy's setting in words, such as ``C = 0.98, n ≤ 32``, with enough digits to tell C from 1."""
        samples = f"n {'=' if self.fixed else '≤'} {self.samples}"
        if self.mean_samples is not None:
            return f"{samples}, mean ≤ {self.mean_samples}"
        if self.target is None:
            return samples
        near = f"{self.target:.4f}".rstrip("0") if self.target < 0.9995 else f"1 - {1 - self.target:.1g}"
        return f"C = {near}, {samples}"


@dataclass(frozen=True, kw_only=True)
class Results:
    """The results of a choice on calibration questions that nothing was fitted to, or on test questions."""

    dataset: str
    questions: int
    accuracy: Quantity
    samples: Quantity
    """The accuracy, and the mean number of samples of a question."""
    tokens: Quantity | None
    """The mean generated tokens of a question; None if they are not known."""
    accuracy_error: float
    """The standard error of the accuracy."""
    to_fixed: Quantity | None = None
    """On test questions: accuracy minus that of best-of-n with the same mean number of samples, paired. None for
    best-of-n itself."""
    to_pass_at_1: Quantity | None = None
    """On test questions: accuracy minus that of one sample, paired."""
    rule: str = ""
    """On test questions: the rule that ``safe choice`` uses."""
    to_recommended: Quantity | None = None
    """On test questions: accuracy minus that of the recommended choice, paired. None for this choice itself."""


@dataclass(frozen=True)
class Line:
    """A choice with its results."""

    choice: Choice
    known: Results
    """On the calibration questions, by which it was chosen."""
    tests: tuple[Results, ...]
    """On the test questions of each data set."""
    cell: str = ""
    number: int | None = None
    """The id and the short number of a calibration cell with its LLM, PRM and calibrator; empty if it has none."""


class LeftOut(NamedTuple):
    """Something that was not among the choices, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Recommendation:
    """The recommended choice, with others to compare it with."""

    wanted: Wanted
    recommended: Line
    fixed: Line
    """The plain choice: best-of-n, chosen in the same way."""
    others: tuple[Line, ...]
    """The best settings of other strategies and calibrators with the same LLM, and the best of other LLMs. They are in
    the order of the choice."""
    reached: bool
    """True if the wanted accuracy is reached on the calibration questions. True for a budget."""
    questions: int
    trajectories: int
    folds: int
    """The calibration questions, the trajectories of each, and the parts into which they were divided."""
    choices: int
    """The number of choices that were compared."""
    left_out: tuple[LeftOut, ...]
    in_sample: tuple[str, ...]
    """Calibrators whose rewards are known only of questions that they were fitted to. Choices with them look too
    good."""
    more: int | None
    """The trajectories of each question with which larger budgets could be chosen, if there are too few."""


def recommendation_frame(found: Recommendation, directory: Path) -> "pd.DataFrame":
    """Return one row for each choice and data set: the recommended choice first, then the plain one, then the others.

    Columns role ("recommended", "fixed", "other"), llm, prm, calibrator, level, strategy, target, max_samples, cell_id,
    number, command, known_accuracy, known_samples and known_tokens (on the calibration questions), known_questions,
    dataset, questions, accuracy, samples, tokens, to_fixed, to_pass_at_1 and to_recommended (on the test questions).
    Values have their 95% interval in ``<column>_low`` and ``<column>_high``. What is not known is NaN.
    """
    import pandas as pd

    lines = [("recommended", found.recommended), ("fixed", found.fixed)]
    lines += [("other", each) for each in found.others]
    return pd.DataFrame([row for role, line in lines for row in _rows(role, line, found, directory)])


def ask_command(line: Line, directory: Path) -> str:
    """Return the command that answers a question with a choice.

    A choice without a calibrator leaves it to ``prmcal ask`` which one says how sure the answer is.
    """
    choice = line.choice
    parts = ["prmcal", "ask", str(directory), "QUESTION"]
    if line.cell:
        parts += ["--cell", line.cell if line.number is None else str(line.number)]
    else:
        parts += ["--llm", choice.llm, *(["--prm", choice.prm] if choice.prm else [])]
    parts += ["--strategy", choice.strategy]
    if choice.target is not None:
        parts += ["--target", repr(choice.target)]
    if choice.level is not None:
        parts += ["--level", f"{choice.level:g}"]
    if choice.mean_samples is not None:
        parts += ["--mean-samples", str(choice.mean_samples)]
    return shlex.join([*parts, "--max-samples", str(choice.samples)])


def _rows(role: str, line: Line, found: Recommendation, directory: Path) -> list[dict[str, Any]]:
    choice, known = line.choice, line.known
    return [
        {
            "role": role,
            "llm": choice.llm,
            "prm": choice.prm or None,
            "calibrator": choice.calibrator or None,
            "level": choice.level,
            "strategy": choice.strategy,
            "target": choice.target,
            "max_samples": choice.samples,
            "cell_id": line.cell,
            "number": line.number,
            "command": ask_command(line, directory),
            **known.accuracy.columns("known_accuracy"),
            **known.samples.columns("known_samples"),
            **(known.tokens or UNKNOWN).columns("known_tokens"),
            "known_questions": found.questions,
            "dataset": each.dataset,
            "questions": each.questions,
            **each.accuracy.columns("accuracy"),
            **each.samples.columns("samples"),
            **(each.tokens or UNKNOWN).columns("tokens"),
            **(each.to_fixed or UNKNOWN).columns("to_fixed"),
            **(each.to_pass_at_1 or UNKNOWN).columns("to_pass_at_1"),
            **(each.to_recommended or UNKNOWN).columns("to_recommended"),
        }
        for each in line.tests
    ]
