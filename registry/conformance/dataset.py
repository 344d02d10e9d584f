"""What is checked of a data set."""

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
    """As many questions of a split as are looked at."""
    try:
        return plugin.questions(split, _MOST)
    except DataError:
        return plugin.questions(split)


def check_every_split_has_questions(plugin: Dataset) -> None:
    """With an id of its own, a text, an answer and a level from 1 to 5 if any."""
    expect(len(plugin.splits) > 0, "'splits' must name at least one split. Got none.")
    for split in plugin.splits:
        questions = _first(plugin, split)
        expect(len(questions) > 0, f"The split '{split}' must hold a question. Got none.")
        ids = [question.id for question in questions]
        twice = sorted({each for each in ids if ids.count(each) > 1})
        expect(not twice, f"Ids must be unique within a split. In '{split}' {twice[:3]} come more than once.")
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
    """The same each time, and a larger count begins with the questions of a smaller one."""
    for split in plugin.splits:
        questions = _first(plugin, split)
        expect(
            questions == _first(plugin, split),
            f"The split '{split}' must be the same each time it is asked for.",
        )
        fewer = (len(questions) + 1) // 2
        expect(
            plugin.questions(split, fewer) == questions[:fewer],
            f"The first {fewer} questions of '{split}' must be those that {len(questions)} begin with.",
        )


def check_splits_are_disjoint(plugin: Dataset) -> None:
    """Nothing is calibrated on a question that it is tested on."""
    home: dict[str, str] = {}
    for split in plugin.splits:
        for question in _first(plugin, split):
            other = home.setdefault(question.text, split)
            expect(
                other == split,
                f"Splits must be disjoint. {question.text[:60]!r} is in '{other}' and '{split}'.",
            )


def check_what_is_not_there(plugin: Dataset) -> None:
    """Asking for an unknown split or too many questions is an error that says so."""
    for split, count in ((_NO_SPLIT, None), (plugin.splits[0], _MORE_THAN_ANY)):
        try:
            plugin.questions(split, count)
        except DataError:
            continue
        except Exception as error:
            raise AssertionError(
                f"questions({split!r}, {count}) must raise DataError. Got {type(error).__name__}: {error}"
            ) from error
        raise AssertionError(f"questions({split!r}, {count}) must raise DataError. It returned.")


def check_grading(plugin: Dataset) -> None:
    """The reference answer in a box is correct, another one is not, and without a box there is no verdict."""
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
    check_what_is_not_there,
    check_grading,
)
