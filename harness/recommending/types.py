"""The wish and the recommendation, also as a table, and the command that uses a choice."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

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
    """A strategy with its setting and its models, for new questions.

    Attributes
    ----------
    llm, prm, calibrator, strategy : str
        Their names in the grid. The PRM and the calibrator are empty if the strategy reads nothing of them. A strategy
        that the grid does not have goes by its registered name, with its default arguments.
    level : float or None
        The level beta of the rewards, if the strategy reads rewards at one level.
    target : float or None
        The target probability C, if the strategy has one.
    samples : int
        N, the most samples of a question.
    fixed : bool
        Whether every question gets N samples.
    """

    llm: str
    strategy: str
    samples: int
    prm: str = ""
    calibrator: str = ""
    level: float | None = None
    target: float | None = None
    fixed: bool = False

    @property
    def setting(self) -> str:
        """The strategy's setting in words, such as ``C = .98, at most 32 samples``."""
        samples = f"n {'=' if self.fixed else '≤'} {self.samples}"
        return samples if self.target is None else f"C = {target_text(self.target)}, {samples}"


def target_text(target: float) -> str:
    """Return a target probability with as many digits as tell it from 1."""
    return f"{target:.4f}".rstrip("0") if target < 0.9995 else f"1 - {1 - target:.1g}"


@dataclass(frozen=True, kw_only=True)
class Reached:
    """The results of a choice on some questions.

    Attributes
    ----------
    accuracy, samples : Quantity
        The accuracy, and the mean number of samples of a question.
    tokens : Quantity or None
        The mean generated tokens of a question; None if they are not known.
    """

    accuracy: Quantity
    samples: Quantity
    tokens: Quantity | None


@dataclass(frozen=True, kw_only=True)
class Known(Reached):
    """The results on calibration questions that were left out when anything was fitted for the choice.

    Attributes
    ----------
    accuracy_error : float
        The standard error of the accuracy.
    """

    accuracy_error: float


@dataclass(frozen=True, kw_only=True)
class Tested(Reached):
    """The results on the test questions of one data set.

    Attributes
    ----------
    dataset : str
    questions : int
    to_fixed : Quantity or None
        Accuracy minus that of best-of-n with the same mean number of samples, paired. None for best-of-n itself.
    to_pass_at_1 : Quantity
        Accuracy minus that of one sample, paired.
    to_recommended : Quantity or None
        Accuracy minus that of the recommended choice, paired. None for this choice itself.
    """

    dataset: str
    questions: int
    to_fixed: Quantity | None
    to_pass_at_1: Quantity
    to_recommended: Quantity | None = None


@dataclass(frozen=True)
class Line:
    """A choice with its results.

    Attributes
    ----------
    choice : Choice
    known : Known
        On the calibration questions, by which it was chosen.
    tests : tuple of Tested
        For each data set.
    cell : str
        The id of a calibration cell with its LLM, PRM and calibrator; empty if it has no calibrator.
    number : int or None
        The short number of this cell.
    """

    choice: Choice
    known: Known
    tests: tuple[Tested, ...]
    cell: str = ""
    number: int | None = None


@dataclass(frozen=True)
class LeftOut:
    """Something that was not among the choices, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class MoreDraws:
    """More trajectories of the calibration questions that would widen the choice.

    Attributes
    ----------
    trajectories : int
        How many of each question, with those that the run has.
    seconds : float or None
        The estimated wall time on this machine; None if it is not known.
    """

    trajectories: int
    seconds: float | None


@dataclass(frozen=True)
class Recommendation:
    """The recommended choice, with others to compare it with.

    Attributes
    ----------
    wanted : Wanted
    recommended : Line
    fixed : Line
        The plain choice: best-of-n, chosen in the same way.
    others : tuple of Line
        The best settings of other strategies and calibrators with the same LLM, and the best of other LLMs. They are in
        the order of the choice.
    reached : bool
        Whether the wanted accuracy is reached on the calibration questions. True for a budget.
    questions, trajectories, folds : int
        The calibration questions, the trajectories of each, and the parts into which they were divided.
    choices : int
        How many choices were compared.
    left_out : tuple of LeftOut
    in_sample : tuple of str
        Calibrators whose rewards are known only of questions that they were fitted to. Choices with them look too good.
    more : MoreDraws or None
        If larger budgets cannot be chosen with so few trajectories.
    """

    wanted: Wanted
    recommended: Line
    fixed: Line
    others: tuple[Line, ...]
    reached: bool
    questions: int
    trajectories: int
    folds: int
    choices: int
    left_out: tuple[LeftOut, ...]
    in_sample: tuple[str, ...]
    more: MoreDraws | None


def recommendation_frame(found: Recommendation, directory: Path) -> pd.DataFrame:
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
    return shlex.join([*parts, "--max-samples", str(choice.samples)])


def _rows(role: str, line: Line, found: Recommendation, directory: Path) -> list[dict[str, Any]]:
    known = line.known
    return [
        {
            "role": role,
            **_identity(line.choice),
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
            **each.to_pass_at_1.columns("to_pass_at_1"),
            **(each.to_recommended or UNKNOWN).columns("to_recommended"),
        }
        for each in line.tests
    ]


def _identity(choice: Choice) -> dict[str, Any]:
    return {
        "llm": choice.llm,
        "prm": choice.prm or None,
        "calibrator": choice.calibrator or None,
        "level": choice.level,
        "strategy": choice.strategy,
        "target": choice.target,
        "max_samples": choice.samples,
    }
