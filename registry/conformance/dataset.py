"""The checks for data sets."""

from __future__ import annotations

from prmcal.errors import DataError
from prmcal.registry.conformance.plugin import expect
from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.dataset import Dataset, FollowedUpDataset

__all__ = ["CHECKS"]

_MOST = 200
_MORE_THAN_ANY = 10**9
_NO_SPLIT = "no such split"


def _first(plugin: Dataset, split: str) -> list[Question]:
    """The questions of a split that are checked."""
    try:
        return plugin.questions(split, _MOST)
    except DataError:
        return plugin.questions(split)


def check_every_split_has_questions(plugin: Dataset) -> None:
    """Each question has a unique id, a text, an answer, and a level from 1 to 5 or None."""
    expect(len(plugin.splits) > 0, "'splits' must name at least one split. Got none.")
    for split in plugin.splits:
        questions = _first(plugin, split)
        expect(len(questions) > 0, f"The split '{split}' must have questions. Got none.")
        ids = [question.id for question in questions]
        twice = sorted({each for each in ids if ids.count(each) > 1})
        expect(not twice, f"Ids must be unique within a split. '{split}' has duplicates: {twice[:3]}.")
        for question in questions:
            expect(
                bool(question.text.strip()),
                f"Question {question.id} of '{split}' must have a text. Got none.",
            )
            expect(
                bool(question.answer.strip()) or isinstance(plugin, FollowedUpDataset),
                f"Question {question.id} of '{split}' must have an answer. Got none.",
            )
            expect(
                question.level is None or question.level in range(1, 6),
                f"Question {question.id} of '{split}' must have a level from 1 to 5, or None. Got {question.level}.",
            )


def check_questions_keep_their_order(plugin: Dataset) -> None:
    """The questions are the same each time, and a larger count begins with those of a smaller one."""
    for split in plugin.splits:
        questions = _first(plugin, split)
        expect(
            questions == _first(plugin, split),
            f"The split '{split}' must have the same questions each time.",
        )
        fewer = (len(questions) + 1) // 2
        expect(
            plugin.questions(split, fewer) == questions[:fewer],
            f"The first {fewer} questions of '{split}' must also be the first of {len(questions)}.",
        )


def check_splits_are_disjoint(plugin: Dataset) -> None:
    """No question is in two splits, so that none is used for calibration and test."""
    home: dict[str, str] = {}
    for split in plugin.splits:
        for question in _first(plugin, split):
            other = home.setdefault(question.text, split)
            expect(
                other == split,
                f"Splits must be disjoint. {question.text[:60]!r} is in '{other}' and '{split}'.",
            )


def check_unknown_splits_and_counts_are_refused(plugin: Dataset) -> None:
    """An unknown split, or a count that is too large, raises DataError."""
    for split, count in ((_NO_SPLIT, None), (plugin.splits[0], _MORE_THAN_ANY)):
        try:
            plugin.questions(split, count)
        except DataError:
            continue
        except Exception as error:
            raise AssertionError(
                f"questions({split!r}, {count}) must raise DataError. Got {type(error).__name__}: {error}"
            ) from error
        raise AssertionError(f"questions({split!r}, {count}) must raise DataError. It raised nothing.")


def check_grading(plugin: Dataset) -> None:
    """The reference answer in a box is correct, another answer is incorrect, and no box is unparsed."""
    if isinstance(plugin, FollowedUpDataset):
        return
    for question in _first(plugin, plugin.splits[-1]):
        cases = (
            (f"So it is\n\n\\boxed{{{question.answer}}}", "correct"),
            ("So it is\n\n\\boxed{surely not this}", "incorrect"),
            ("I do not know.", "unparsed"),
        )
        for trajectory, expected in cases:
            verdict, _ = plugin.grade(question, trajectory)
            expect(
                verdict == expected,
                f"grade() of {trajectory!r} for question {question.id} must be '{expected}'. Got '{verdict}'.",
            )


CHECKS = (
    check_every_split_has_questions,
    check_questions_keep_their_order,
    check_splits_are_disjoint,
    check_unknown_splits_and_counts_are_refused,
    check_grading,
)
