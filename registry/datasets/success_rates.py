"""The data set `success-rates`: prefixes with published success rates, to calibrate or to test on."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from prmcal.errors import DataError, PluginFailedError
from prmcal.registry.contracts.data import Completion, Prefix, Question, Sampling
from prmcal.registry.contracts.dataset import Dataset
from prmcal.registry.contracts.models import LLM
from prmcal.registry.contracts.plugin import Count
from prmcal.registry.datasets.jsonl import first_questions
from prmcal.registry.messages import excerpt, file_hash, is_file, shown
from prmcal.registry.reading.fields import Fields
from prmcal.registry.reading.recordings import as_one_step
from prmcal.registry.reading.records import Record, good_records, read_records
from prmcal.registry.reading.roles import PREFIXES, RATES
from prmcal.registry.reading.shapes import SHAPES, first_value
from prmcal.registry.reading.solutions import solutions_of
from prmcal.steps import split_steps

_TRAJECTORY_FIELDS = ("trajectory", "response_id")
_TOLERANCE = 1e-6
_MOST_FOLLOW_UPS = 1_000_000


class PublishedLLM(LLM):
    """The LLM of published trajectories, such as the data of `success-rates`. It is not loaded and generates nothing.

    The data set has its files under the name of this LLM in the grid.
    """

    def generate(self, prefixes: Sequence[Prefix], n: int, sampling: Sampling, seed: int) -> list[list[Completion]]:
        """Raise a PluginFailedError."""
        raise PluginFailedError(
            "The LLM 'published' generates nothing: it stands for trajectories that a data set has. Use another LLM "
            "plugin to sample, such as 'vllm'."
        )


@dataclass(frozen=True, slots=True)
class FollowedUp:
    """A trajectory whose prefixes were followed up."""

    steps: tuple[str, ...]
    counts: Mapping[int, tuple[int, int]]
    """k successes of n follow-ups for each prefix with follow-ups, by its number of steps t."""


@dataclass(eq=False)
class SuccessRates(Dataset):
    """Published prefixes with their success rates, to fit and to measure calibrators.

    The LLM is not loaded and generates nothing. Nothing is graded, so the questions need no answers.

    A record has a `question`, a `reasoning_prefix` (steps with blank lines between them, empty for the bare question)
    and a `success_prob`. The calibration set published with the paper and the files of `prmcal export` have
    these fields. `first_pass_prefix` and `accuracy`, the fields of the published ``*_mc_accuracy.json``, have the same
    meaning. Optional fields are `follow_ups` (the number of follow-ups) and `trajectory` (or `response_id`), which
    identifies the trajectory of a prefix. Without `trajectory`, each prefix that no other prefix of its question
    continues is the end of a trajectory, and remaining rows make further trajectories, so that every row counts once.
    If records have an `llm` or a `split`, only records of the grid's LLM and of the split are used. Records without
    these fields are for all. The formats of openr (lists and trees) and of Math-Shepherd are read too.

    Whole solutions are not published, so no strategy can be run on the test split.
    """

    citation = "Park et al. (2025), NeurIPS, arXiv:2506.09338"
    splits = ("calibration", "test")

    files: dict[str, str | list[str]]
    """The file or files (.jsonl, .json or .parquet) for each LLM, by its name in the grid, such as
    ``{Llama-3.2-1B: prm_calibration/math500train/Llama-3.2-1B-Instruct/data.json}``."""
    expected: Count = 500
    """The number of questions that a plan assumes if a file is not on this machine."""

    def check_arguments(self) -> None:
        """Raise ValueError if an LLM has no file."""
        if not self.files or not all(self.files.values()):
            raise ValueError("The 'files' parameter must name a file for each LLM of the grid.")

    def absent_size(self, split: str) -> int | None:
        """Return the expected number of questions if a file is not on this machine, else None."""
        return self.expected if self._absent else None

    def identity(self) -> dict[str, Any]:
        """Return the identity, with the hashes of all files in place of their paths."""
        return {**super().identity(), "arguments": {}, "files": {llm: self.content(llm) for llm in self.files}}

    def content(self, llm: str) -> list[str]:
        """Return the identity of the data of an LLM: its name, which selects rows, and the hashes of its files here."""
        return [llm, *(file_hash(path) if is_file(path) else "absent" for path in self._paths(llm))]

    def questions(self, split: str, count: int | None = None) -> list[Question]:
        """Return the questions in the first LLM's files, in order; see :meth:`prmcal.Dataset.questions`."""
        if split not in self.splits:
            raise DataError(f"The data set 'success-rates' has no split '{split}'. It has: {', '.join(self.splits)}.")
        if self._absent:
            raise DataError(
                f"The file of success rates {self._absent[0]} does not exist. To get the files of the paper's authors: "
                "hf download young-j-park/prm_calibration --repo-type dataset --local-dir prm_calibration"
            )
        first_llm = next(iter(self.files))
        texts = dict.fromkeys(row.question for row in _rows(self._paths(first_llm), first_llm, split))
        questions = [Question(str(number), text, "") for number, text in enumerate(texts, start=1)]
        return first_questions(questions, count, ", ".join(self._paths(first_llm)))

    def trajectories(self, llm: str, follow_ups: int, split: str = "calibration") -> Mapping[str, Sequence[FollowedUp]]:
        """Return the trajectories of an LLM, given by its name in the grid, by the text of their question.

        `follow_ups` is the number of follow-ups of a prefix, if the data does not have it. Raises a DataError if there
        are no trajectories of this LLM, or the data is invalid.
        """
        if llm not in self.files:
            raise DataError(
                f"The data set 'success-rates' has no file for the LLM '{llm}'. "
                f"It has files for: {', '.join(self.files)}."
            )
        groups: dict[str, dict[Any, list[_Row]]] = defaultdict(lambda: defaultdict(list))
        for row in _rows(self._paths(llm), llm, split):
            groups[row.question][row.trajectory].append(row)
        return {
            question: [trajectory for rows in by_trajectory.values() for trajectory in _chains(rows, follow_ups)]
            for question, by_trajectory in groups.items()
        }

    @property
    def _absent(self) -> list[str]:
        return [path for llm in self.files for path in self._paths(llm) if not is_file(path)]

    def _paths(self, llm: str) -> tuple[str, ...]:
        paths = self.files.get(llm, [])
        return (paths,) if isinstance(paths, str) else tuple(paths)


@dataclass(frozen=True, slots=True)
class _Row:
    """A published prefix. `follow_ups` and `trajectory` are None if the record does not have them."""

    place: str
    question: str
    steps: tuple[str, ...]
    rate: float
    follow_ups: int | None
    trajectory: str | int | None

    def counts(self, follow_ups: int) -> tuple[int, int]:
        n = self.follow_ups or follow_ups
        k = round(self.rate * n)
        if abs(self.rate * n - k) > _TOLERANCE * n:
            raise DataError(
                f"{self.place}: the success rate {self.rate:g} is not a multiple of 1/{n}. Set 'follow_ups' in the "
                "grid's 'calibration' to the number of follow-ups per prefix."
            )
        return k, n


def _chains(rows: Sequence[_Row], follow_ups: int) -> list[FollowedUp]:
    """Return the trajectories of one question. A trajectory ends with a prefix that no other prefix continues.

    Trajectories that share a prefix get the prefix's rows in turn. So if the prefix has a row for each of them, each
    gets its own counts. A trajectory can also be the beginning of another one. Then rows remain, and the longest of
    them are ends of trajectories.
    """
    by_steps: dict[tuple[str, ...], list[_Row]] = defaultdict(list)
    for row in rows:
        by_steps[row.steps].append(row)
    continued = {steps[:count] for steps in by_steps for count in range(len(steps))}
    ends = [row.steps for row in rows if row.steps not in continued]
    beginnings = sorted((row.steps for row in rows if row.steps in continued), key=len, reverse=True)
    uses: Counter[tuple[str, ...]] = Counter()
    trajectories = []
    for place, end in enumerate([*ends, *beginnings]):
        is_beginning = place >= len(ends)
        if is_beginning and uses[end] >= len(by_steps[end]):
            continue
        counts = {}
        for count in range(len(end) + 1):
            same = by_steps.get(end[:count], [])
            if len(same) > (uses[end[:count]] if is_beginning else 0):
                counts[count] = same[uses[end[:count]] % len(same)].counts(follow_ups)
                uses[end[:count]] += 1
        trajectories.append(FollowedUp(end, counts))
    return trajectories


@lru_cache(maxsize=4)
def _rows(paths: tuple[str, ...], llm: str, split: str) -> list[_Row]:
    rows: list[_Row] = []
    for path in paths:

        def convert(place: str, record: Any, path: str = path) -> _Row | None:
            return _row(f"{path}, {place}", record, llm, split)

        records = read_records(Path(path))
        first_record = next((record for _, record in records if isinstance(record, Mapping)), {})
        if not first_record.keys() & set(PREFIXES) and any(shape.fits(first_record) for shape in SHAPES):
            rows += _of_solutions(records, path)
        else:
            rows += filter(None, good_records(records, convert, path))
    if not rows:
        raise DataError(f"{', '.join(paths)} contains no {split} prefixes of the LLM '{llm}'.")
    return rows


def _of_solutions(records: Sequence[Record], path: str) -> Iterator[_Row]:
    """Yield the prefixes with rates of another published format, such as openr's or Math-Shepherd's."""
    for number, solution in enumerate(solutions_of(records, path, Fields())[0]):
        steps, rates = tuple(map(as_one_step, solution.get("steps") or ())), solution.get("rates") or ()
        for count, rate in enumerate(rates, start=len(steps) + 1 - len(rates)):
            if rate is not None:
                yield _Row(f"{path}, {solution['place']}", solution["question"], steps[:count], rate, None, number)


def _row(place: str, record: Any, llm: str, split: str) -> _Row | None:
    """Return the row of a record, or None if it has another LLM, another split or no prefix."""
    fields: Mapping[str, Any] = record if isinstance(record, dict) else {}
    question, prefix, rate = fields.get("question"), first_value(fields, PREFIXES), first_value(fields, RATES)
    if not isinstance(question, str) or not question.strip() or not fields.keys() & set(PREFIXES):
        raise ValueError(
            "it must have a 'question', a 'reasoning_prefix' and a 'success_prob'. "
            f"Its fields are: {excerpt(', '.join(map(str, fields))) or 'none'}"
        )
    if fields.get("llm", llm) != llm or fields.get("split", split) != split or prefix is None:
        return None
    if not isinstance(prefix, str) or isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
        raise ValueError(
            "its prefix must be a string and its success rate a number in [0, 1]. "
            f"Got {shown(prefix)} and {shown(rate)}"
        )
    n = fields.get("follow_ups")
    if n is not None and (not isinstance(n, int) or not 1 <= n <= _MOST_FOLLOW_UPS):
        raise ValueError(f"its 'follow_ups' must be an int in [1, {_MOST_FOLLOW_UPS}]. Got {shown(n)}")
    trajectory = first_value(fields, _TRAJECTORY_FIELDS)
    if not isinstance(trajectory, str | int | None):
        raise ValueError(f"its 'trajectory' must be a string or an int. Got {shown(trajectory)}")
    return _Row(place, question, split_steps(prefix), float(rate), n, trajectory)
