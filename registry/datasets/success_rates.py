"""The data set `success-rates`: prefixes with the success rates that others measured, to calibrate on."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from prmcal.errors import DataError
from prmcal.registry.contracts.data import Question, split_steps
from prmcal.registry.contracts.dataset import FollowedUp, FollowedUpDataset
from prmcal.registry.datasets.records import first_questions, read_records

__all__ = ["SuccessRates"]

_PREFIX_FIELDS = ("reasoning_prefix", "first_pass_prefix")
_RATE_FIELDS = ("success_prob", "accuracy")
_TRAJECTORY_FIELDS = ("trajectory", "response_id")
_TOLERANCE = 1e-6


class SuccessRates(FollowedUpDataset):
    """Published prefixes with their success rates, as they are: the LLM is neither loaded nor asked.

    A record has a `question`, a `reasoning_prefix` (steps parted by blank lines, empty for the bare question) and a
    `success_prob`, as in the calibration set that the paper's authors publish and in what `prmcal export-success`
    writes; `first_pass_prefix` and `accuracy`, as in their ``*_mc_accuracy.json``, mean the same. The counts
    `successes` and `follow_ups` are read if they are there, and so is `trajectory` (or `response_id`), which tells
    whose prefix it is. Without it, every prefix that no other one of its question continues is the end of a
    trajectory. Of a file with several LLMs or splits (`llm`, `split`) the grid's LLM and the calibration split count.

    Parameters
    ----------
    files : dict of str to (str or list of str)
        For each LLM of the grid, by its name there, the file or files (.jsonl, .json or .parquet), such as
        ``{llama-3.2-1b: prm_calibration/math500train/Llama-3.2-1B-Instruct/data.json}``.
    """

    def __init__(self, files: dict[str, str | list[str]]) -> None:
        self.files = files

    def check_arguments(self) -> None:
        """Refuse an empty list of files, and files that are not there."""
        if not self.files or not all(self.files.values()):
            raise ValueError("The 'files' parameter must name a file for each LLM of the grid.")
        gone = [path for llm in self.files for path in self._paths(llm) if not Path(path).is_file()]
        if gone:
            raise ValueError(f"There is no file {gone[0]} of success rates.")

    def identity(self) -> dict[str, Any]:
        """The hash of every LLM's files, wherever they lie."""
        return {
            **super().identity(),
            "arguments": {},
            "files": {llm: self.content(llm) for llm in self.files},
        }

    def content(self, llm: str) -> list[str]:
        """The LLM's name, which chooses rows of a file with several, and the hashes of its files."""
        return [llm, *(_file_hash(path) for path in self._paths(llm))]

    def questions(self, split: str, count: int | None = None) -> list[Question]:
        """The questions of the first LLM's files, in their order; see :meth:`prmcal.Dataset.questions`."""
        if split not in self.splits:
            raise DataError(f"The data set 'success-rates' has no split '{split}'. It has: {self.splits[0]}.")
        first = next(iter(self.files))
        texts = dict.fromkeys(row.question for row in _rows(self._paths(first), first))
        questions = [Question(str(number), text, "") for number, text in enumerate(texts, start=1)]
        return first_questions(questions, count, ", ".join(self._paths(first)))

    def trajectories(self, llm: str, follow_ups: int) -> Mapping[str, Sequence[FollowedUp]]:
        """See :meth:`prmcal.registry.contracts.dataset.FollowedUpDataset.trajectories`."""
        if llm not in self.files:
            raise DataError(
                f"The data set 'success-rates' has no file of the LLM '{llm}', but of: {', '.join(self.files)}."
            )
        groups: dict[str, dict[Any, list[_Row]]] = defaultdict(lambda: defaultdict(list))
        for row in _rows(self._paths(llm), llm):
            groups[row.question][row.trajectory].append(row)
        return {
            question: [each for rows in by_trajectory.values() for each in _chains(rows, follow_ups)]
            for question, by_trajectory in groups.items()
        }

    def _paths(self, llm: str) -> tuple[str, ...]:
        given = self.files.get(llm, [])
        return tuple(str(Path(each).expanduser()) for each in ([given] if isinstance(given, str) else given))


@dataclass(frozen=True, slots=True)
class _Row:
    """A prefix as it is published; `follow_ups` and `trajectory` where that is said."""

    place: str
    question: str
    steps: tuple[str, ...]
    rate: float
    follow_ups: int | None
    trajectory: Any

    def counts(self, follow_ups: int) -> tuple[int, int]:
        n = self.follow_ups or follow_ups
        k = round(self.rate * n)
        if abs(self.rate * n - k) > _TOLERANCE * n:
            raise DataError(
                f"{self.place}: the success rate {self.rate:g} is no multiple of 1/{n}. Set 'follow_ups' of the grid's "
                "calibration to how many follow-ups a prefix had."
            )
        return k, n


def _chains(rows: Sequence[_Row], follow_ups: int) -> list[FollowedUp]:
    """Trajectories of one question, each from a prefix that no other continues. Every row counts once.

    Trajectories that share a prefix share its rows in turn: a prefix that was followed up once for each of them
    has a count of its own in each.
    """
    by_steps: dict[tuple[str, ...], list[_Row]] = defaultdict(list)
    for row in rows:
        by_steps[row.steps].append(row)
    continued = {steps[:count] for steps in by_steps for count in range(len(steps))}
    ends = [row.steps for row in rows if row.steps not in continued]
    taken: Counter[tuple[str, ...]] = Counter()
    found = []
    for end in ends:
        counts = {}
        for count in range(len(end) + 1):
            same = by_steps.get(end[:count])
            if same:
                counts[count] = same[taken[end[:count]] % len(same)].counts(follow_ups)
                taken[end[:count]] += 1
        found.append(FollowedUp(end, counts))
    return found


@lru_cache(maxsize=4)
def _rows(paths: tuple[str, ...], llm: str) -> list[_Row]:
    rows = []
    for path in paths:
        for place, record in read_records(Path(path)):
            try:
                row = _row(f"{path}, {place}", record, llm)
            except ValueError as error:
                raise DataError(f"{path}, {place}: {error}.") from error
            if row is not None:
                rows.append(row)
    if not rows:
        raise DataError(f"{', '.join(paths)} holds no prefixes of the LLM '{llm}' to calibrate on.")
    return rows


def _row(place: str, record: Any, llm: str) -> _Row | None:
    """A record's row; None if it is of another LLM, of a test split, or was never followed up."""
    fields: Mapping[str, Any] = record if isinstance(record, dict) else {}
    question, prefix, rate = (
        fields.get("question"),
        _first(fields, _PREFIX_FIELDS),
        _first(fields, _RATE_FIELDS),
    )
    if not isinstance(question, str) or not question.strip() or not fields.keys() & set(_PREFIX_FIELDS):
        raise ValueError(
            "a prefix has a 'question', a 'reasoning_prefix' and a 'success_prob'. "
            f"Its fields are: {', '.join(map(str, fields)) or 'none'}"
        )
    if fields.get("llm", llm) != llm or fields.get("split", "calibration") != "calibration" or prefix is None:
        return None
    if (
        not isinstance(prefix, str)
        or isinstance(rate, bool)
        or not isinstance(rate, int | float)
        or not 0 <= rate <= 1
    ):
        raise ValueError(
            f"its prefix must be a text and its success rate in [0, 1]. Got {prefix!r:.60} and {rate!r}"
        )
    n = fields.get("follow_ups")
    if n is not None and (not isinstance(n, int) or n < 1):
        raise ValueError(f"its 'follow_ups' must be a count of 1 or more. Got {n!r}")
    return _Row(place, question, split_steps(prefix), float(rate), n, _first(fields, _TRAJECTORY_FIELDS))


def _first(fields: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def _file_hash(path: str) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
