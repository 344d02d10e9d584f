"""Recordings: the solutions of each question as completions, with their scores, costs and labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from prmcal.errors import DataError
from prmcal.registry.contracts.data import Completion
from prmcal.registry.messages import shown
from prmcal.registry.reading.fields import Fields, Use
from prmcal.registry.reading.files import read_files
from prmcal.registry.reading.pools import pool_path
from prmcal.registry.reading.records import Record
from prmcal.registry.reading.shapes import Solution
from prmcal.registry.reading.solutions import solutions_of
from prmcal.registry.reading.values import is_number, share_of
from prmcal.steps import join_steps, split_steps

_MOST_TOKENS = 2**31 - 1
_FINISH_REASONS = (None, "end", "stop", "length")
_ROUNDED = 0.01


@dataclass(frozen=True)
class RecordedQuestion:
    """The recording of one question."""

    place: str
    """The place in the file, for error messages."""
    solutions: tuple[Completion, ...]
    """Whole trajectories, in the order in which they were sampled."""
    follow_ups: Mapping[tuple[str, ...], tuple[Completion, ...]]
    """Completions of prefixes, by the prefix's steps."""
    scores: tuple[Any, ...]
    """The recorded scores, one entry for each solution, None without a score. Empty if no solution has one."""


FieldNames = dict[Literal["question", "score", "label", "cost"], str]
"""The names of fields by their roles, if they are unusual."""
RowValues = dict[str, str | int | float | bool]
"""Values of fields that select the rows to read."""


@dataclass(frozen=True)
class Recording:
    """The files of a recording, and how they are read."""

    paths: tuple[str, ...]
    fields: Fields
    only: tuple[tuple[str, Any], ...]

    @classmethod
    def of(
        cls,
        path: str | Sequence[str],
        names: FieldNames | None,
        only: RowValues | None,
        solutions: str | None = None,
        score: str | None = None,
    ) -> "Recording":
        """Return the recording that the arguments of a plugin describe."""
        paths = tuple(map(pool_path, [path] if isinstance(path, str) else path))
        names = {**({"score": score} if score else {}), **(names or {})}
        question, label, cost = names.get("question"), names.get("label"), names.get("cost")
        fields = Fields(question, names.get("score"), label, solutions=solutions, cost=cost)
        return cls(paths, fields, tuple((only or {}).items()))

    @property
    def file_names(self) -> str:
        """The files, for error messages."""
        return ", ".join(self.paths)

    def records(self) -> list[Record]:
        """Read the files."""
        only = {name: [value] for name, value in self.only}
        return read_files([Path(path) for path in self.paths], only)


def as_one_step(text: str) -> str:
    """Remove the blank lines of a text, which makes it a single step."""
    return "\n".join(split_steps(text))


def read_recording(
    recording: Recording, use: Use, skip: bool = False, correct_from: float | None = None
) -> dict[str, RecordedQuestion]:
    """Read the questions of a recording, by their text. It is read once, as long as its files do not change.

    With `skip`, bad records are left out with a warning. From the share `correct_from` on, a solution is right. Raises
    a DataError if a file cannot be read, records are invalid, or a question with a list of solutions occurs twice.
    """
    stamps = tuple(
        (file.stat().st_mtime_ns, file.stat().st_size) for file in map(Path, recording.paths) if file.exists()
    )
    return _read_recording(recording, use, skip, correct_from, stamps)


@lru_cache(maxsize=4)
def _read_recording(
    recording: Recording, use: Use, skip: bool, correct_from: float | None, stamps: tuple[tuple[int, int], ...]
) -> dict[str, RecordedQuestion]:
    places = dict[str, str]()

    def check(place: str, solutions: Sequence[Solution]) -> None:
        for solution in solutions:
            _completion(solution, correct_from)
        first_solution = solutions[0] if solutions else {}
        _follow_ups(first_solution.get("follow_ups") or [], correct_from)
        question = str(first_solution.get("question"))
        if "number" in first_solution and places.setdefault(question, place) != place:
            raise ValueError(f"it has the same question as {places[question]}")

    recorded_solutions, _ = solutions_of(recording.records(), recording.file_names, recording.fields, use, skip, check)
    groups: dict[str, list[Solution]] = {}
    for solution in recorded_solutions:
        groups.setdefault(solution["question"], []).append(solution)
    questions = {}
    for text, group in groups.items():
        solutions = tuple(_completion(solution, correct_from) for solution in group)
        if len({completion.correct is None for completion in solutions}) > 1:
            raise DataError(
                f"{recording.file_names}, {group[0]['place']}: some solutions have no value that says whether they are "
                "right."
            )
        follow_ups = _follow_ups(group[0].get("follow_ups") or [], correct_from)
        scores = tuple(solution.get("score") for solution in group)
        scores = () if scores.count(None) == len(scores) else scores
        questions[text] = RecordedQuestion(group[0]["place"], solutions, follow_ups, scores)
    return questions


def _completion(solution: Solution, correct_from: float | None) -> Completion:
    """Return a solution as a completion. If it has no text, its number and its place are its text."""
    text, steps = solution.get("text"), solution.get("steps")
    name = f"solution {solution.get('number', 1)} of {solution.get('place')}"
    answer, scores = solution.get("answer"), solution.get("score")
    end = "" if answer is None or text is not None or steps is not None else f": \\boxed{{{answer}}}"
    if text is None and steps is None and isinstance(scores, list):  # A pool has scores of steps without their texts.
        steps = [""] * len(scores)
    if steps is not None:
        text = join_steps([as_one_step(text) or f"Step {step} of {name}" for step, text in enumerate(steps, start=1)])
    text = (name if text is None else text) + end
    cost, finish_reason = solution.get("cost"), solution.get("finish_reason")
    cost = len(text.split()) if cost is None else cost
    if not is_number(cost) or not 0 <= cost <= _MOST_TOKENS or abs(cost - round(cost)) > _ROUNDED * cost:
        raise ValueError(
            f"the tokens or the cost of a solution must be a whole number in [0, {_MOST_TOKENS}], or within "
            f"1% of one. Got {shown(cost)}: count it in smaller units"
        )
    if finish_reason not in _FINISH_REASONS:
        raise ValueError(f"its 'finish_reason' must be end, stop or length. Got {shown(finish_reason)}")
    share = share_of(solution.get("label"))
    if share not in (None, 0, 1) and correct_from is None:
        raise ValueError(
            f"the label of a solution is the share {share:g}. Say from which share on a solution is right, such as "
            "'correct_from: 1'"
        )
    correct = None if share is None else share >= (1 if correct_from is None else correct_from)
    return Completion(text, round(cost), "length" if finish_reason == "length" else "end", correct=correct)


def _follow_ups(values: Any, correct_from: float | None) -> dict[tuple[str, ...], tuple[Completion, ...]]:
    well_formed = isinstance(values, list) and all(
        isinstance(entry, dict)
        and isinstance(entry.get("prefix"), list)
        and all(isinstance(step, str) for step in entry["prefix"])
        for entry in values
    )
    if not well_formed:
        raise ValueError("'follow_ups' must be a list of objects with 'prefix', a list of steps, and 'completions'")
    follow_ups = {}
    for follow_up in values:
        completions = follow_up.get("completions")
        if not isinstance(completions, list) or not completions or not all(map(_is_follow_up, completions)):
            raise ValueError("'completions' must be a list with texts, or objects with a 'text'")
        entries = [{"text": entry} if isinstance(entry, str) else entry for entry in completions]
        follow_ups[tuple(follow_up["prefix"])] = tuple(
            _completion({**entry, "cost": entry.get("tokens"), "label": entry.get("correct")}, correct_from)
            for entry in entries
        )
    return follow_ups


def _is_follow_up(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, dict) and isinstance(value.get("text"), str))
