"""Recordings: the solutions of each question as completions, with their scores, their costs and what is right.

Several files are read together: one after another, or with the scores of one in the records of another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from prmcal.errors import DataError
from prmcal.registry.contracts.data import Completion
from prmcal.registry.messages import excerpt, shown
from prmcal.registry.reading.pools import pool_path
from prmcal.registry.reading.records import Record, read_records
from prmcal.registry.reading.shapes import SCORES, Solution
from prmcal.registry.reading.solutions import Fields, Use, is_number, share_of, solutions_of
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
    """The recorded scores, one entry for each solution; None where there is none. Empty if there are none at all."""


FieldNames = dict[Literal["question", "score", "label", "cost"], str]
"""Fields that are not found by their names, by their role."""
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
        found = {"score": score, **(names or {})}
        fields = Fields(
            found.get("question"), found["score"], found.get("label"), None, solutions, found.get("cost")
        )
        return cls(paths, fields, tuple((only or {}).items()))

    @property
    def named(self) -> str:
        """The files, for error messages."""
        return ", ".join(self.paths)

    def records(self) -> list[Record]:
        """Read the files."""
        only = {name: [value] for name, value in self.only}
        return read_files([Path(each) for each in self.paths], only)


def as_one_step(text: str) -> str:
    """Remove the blank lines of a text, so that it is a single step."""
    return "\n".join(split_steps(text))


@lru_cache(maxsize=4)
def read_recording(
    recording: Recording, use: Use, skip: bool = False, correct_from: float | None = None
) -> dict[str, RecordedQuestion]:
    """Read the questions of a recording, by their text.

    With `skip`, bad records are left out with a warning. From the share `correct_from` on, a solution is right. Raises
    a DataError if a file cannot be read, records are invalid, or a question with a list of solutions occurs twice.
    """
    places = dict[str, str]()

    def check(place: str, own: Sequence[Solution]) -> None:
        for each in own:
            _completion(each, correct_from)
        first = own[0] if own else {}
        _follow_ups(first.get("follow_ups") or [], correct_from)
        if "number" in first and places.setdefault(first["question"], place) != place:
            raise ValueError(f"it has the same question as {places[first['question']]}")

    found, _ = solutions_of(recording.records(), recording.named, recording.fields, use, skip, check)
    groups: dict[str, list[Solution]] = {}
    for each in found:
        groups.setdefault(each["question"], []).append(each)
    questions = {}
    for text, own in groups.items():
        solutions = tuple(_completion(each, correct_from) for each in own)
        if len({each.correct is None for each in solutions}) > 1:
            raise DataError(
                f"{recording.named}, {own[0]['place']}: it is not known of all solutions whether they are right."
            )
        follow_ups = _follow_ups(own[0].get("follow_ups") or [], correct_from)
        scores = tuple(each.get("score") for each in own)
        scores = () if scores.count(None) == len(scores) else scores
        questions[text] = RecordedQuestion(own[0]["place"], solutions, follow_ups, scores)
    return questions


def _completion(solution: Solution, correct_from: float | None) -> Completion:
    """Return a solution as a completion. One without a text gets a text of its own, by which it is known."""
    text, steps = solution.get("text"), solution.get("steps")
    name = f"solution {solution.get('number', 1)} of {solution.get('place')}"
    if steps is not None:
        text = join_steps(
            [as_one_step(each) or f"Step {step} of {name}" for step, each in enumerate(steps, start=1)]
        )
    if text is None:
        answer = solution.get("answer")
        text = name if answer is None else f"{name}: \\boxed{{{answer}}}"
    cost, reason = solution.get("cost"), solution.get("finish_reason")
    cost = len(text.split()) if cost is None else cost
    if not is_number(cost) or not 0 <= cost <= _MOST_TOKENS or abs(cost - round(cost)) > _ROUNDED * cost:
        raise ValueError(
            f"the tokens or the cost of a solution must be a whole number in [0, {_MOST_TOKENS}], or one that rounding "
            f"changes by 1% at most. Got {shown(cost)}: count it in smaller units"
        )
    if reason not in _FINISH_REASONS:
        raise ValueError(f"its 'finish_reason' must be end, stop or length. Got {shown(reason)}")
    share = share_of(solution.get("label"))
    if share not in (None, 0, 1) and correct_from is None:
        raise ValueError(
            f"a solution is right to the share {share:g}. Say from which share on it counts as right, such as "
            "'correct_from: 1'"
        )
    correct = None if share is None else share >= (1 if correct_from is None else correct_from)
    return Completion(text, round(cost), "length" if reason == "length" else "end", correct=correct)


def _follow_ups(values: Any, correct_from: float | None) -> dict[tuple[str, ...], tuple[Completion, ...]]:
    well_formed = isinstance(values, list) and all(
        isinstance(each, dict)
        and isinstance(each.get("prefix"), list)
        and all(isinstance(step, str) for step in each["prefix"])
        for each in values
    )
    if not well_formed:
        raise ValueError(
            "'follow_ups' must be a list of objects with 'prefix', a list of steps, and 'completions'"
        )
    found = {}
    for each in values:
        drawn = each.get("completions")
        if not isinstance(drawn, list) or not drawn or not all(map(_is_follow_up, drawn)):
            raise ValueError("'completions' must be a list with texts, or objects with a 'text'")
        given = [{"text": one} if isinstance(one, str) else one for one in drawn]
        found[tuple(each["prefix"])] = tuple(
            _completion({**one, "cost": one.get("tokens"), "label": one.get("correct")}, correct_from)
            for one in given
        )
    return found


def _is_follow_up(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, dict) and isinstance(value.get("text"), str))


_IDS = ("id", "idx", "index", "uid", "question_id", "doc_id")


def read_files(paths: Sequence[Path], only: Mapping[str, Sequence[Any]] | None = None) -> list[Record]:
    """Return the records of files, one after another. The last file may have the scores of the others.

    Scores belong to records with the same id, or in the same order. `only` keeps the records with one of some values,
    by the name of the field. Raises a DataError if a file cannot be read, or nothing is left.
    """
    files = [read_records(Path(pool_path(str(path)))) for path in paths]
    records = _numbered(files[:-1], paths)
    added = _added(records, files[-1])
    records = _joined(records, files[-1], added, paths) if added else _numbered(files, paths)
    for name, values in (only or {}).items():
        wanted = set(map(str, values))
        of_field = [(place, each) for place, each in records if isinstance(each, Mapping) and name in each]
        records = [(place, each) for place, each in of_field if str(each[name]) in wanted]
        if not records:
            known = ", ".join(dict.fromkeys(str(each[name]) for _, each in of_field)) or "no such field"
            raise DataError(
                f"{', '.join(map(str, paths))} has no records whose '{name}' is {' or '.join(wanted)}. It has: {known}."
            )
    return records


def _numbered(files: Sequence[list[Record]], paths: Sequence[Path]) -> list[Record]:
    """Return the records of all files. The places of several files end with a number over all of them."""
    if len(files) == 1:
        return files[0]
    every = [
        (f"{path.name}, {place}", each)
        for file, path in zip(files, paths, strict=False)
        for place, each in file
    ]
    return [(f"{place}, in all {number}", each) for number, (place, each) in enumerate(every, start=1)]


def _added(records: Sequence[Record], last: Sequence[Record]) -> list[str]:
    """Return the fields with scores that the last file adds to the records of the others."""
    if not records or not last:
        return []
    first, scores = records[0][1], last[0][1]
    if not isinstance(first, Mapping) or not isinstance(scores, Mapping) or set(first) <= set(scores):
        return []
    return [name for name in SCORES if name in scores and name not in first]


def _joined(
    records: Sequence[Record], scores: Sequence[Record], added: Sequence[str], paths: Sequence[Path]
) -> list[Record]:
    key = next((name for name in _IDS if name in records[0][1] and name in scores[0][1]), None)
    if key is None and len(records) != len(scores):
        raise DataError(
            f"{', '.join(map(str, paths[:-1]))} has {len(records):,} records and {paths[-1]} has {len(scores):,}, and "
            f"no field names which belong together. Add one of {', '.join(_IDS)} to both."
        )
    others = [content if isinstance(content, Mapping) else {} for _, content in scores]
    owners = [content if isinstance(content, Mapping) else {} for _, content in records]
    # Any value can be an id of a stranger's file.
    ids = [str(each.get(key)) for each in owners] if key else list(map(str, range(len(owners))))
    known = {str(each.get(key)) if key else str(row): each for row, each in enumerate(others)}
    if missing := [each for each in ids if each not in known]:
        raise DataError(
            f"{paths[-1]} has no scores for {len(missing):,} records of {paths[0]}, such as {excerpt(missing[0])}."
        )
    joined = [
        {**own, **{name: known[each].get(name) for name in added}}
        for own, each in zip(owners, ids, strict=True)
    ]
    return [
        (place, each if each.keys() - set(added) else content)
        for (place, content), each in zip(records, joined, strict=True)
    ]
