"""The checks for data sets."""

from __future__ import annotations

from typing import get_args

from prmcal.errors import DataError
from prmcal.registry.conformance.plugin import expect
from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.dataset import Dataset, FollowedUpDataset
from prmcal.registry.grading import Grading

_MOST = 200
_MORE_THAN_ANY = 10**9
_NO_SPLIT = "no such split"


def _first(plugin: Dataset, split: str) -> list[Question]:
    """The questions of a split that are checked."""
    try:
        questions = plugin.questions(split, _MOST)
    except DataError:
        questions = plugin.questions(split)
    form = "Question(id, text, answer)"
    expect(
        isinstance(questions, list),
        f"questions() must return a list of Question. Got {type(questions).__name__}. Write list(...) around it.",
    )
    for question in questions:
        expect(
            isinstance(question, Question),
            f"questions() must return a list of Question. Got a {type(question).__name__}. Write {form}, with three "
            "texts.",
        )
        for name in ("id", "text", "answer"):
            value = getattr(question, name)
            expect(
                isinstance(value, str),
                f"'{name}' of a Question must be a text. Got {value!r}. Write str(...) around it.",
            )
    return questions


def check_splits_and_grading(plugin: Dataset) -> None:
    """`splits` is a tuple of names, and `grading` is a known rule."""
    splits, grading = plugin.splits, plugin.grading
    names = (
        isinstance(splits, (tuple, list))
        and len(splits) > 0
        and all(isinstance(each, str) for each in splits)
    )
    example = splits if isinstance(splits, str) else "test"
    expect(
        names,
        f"'splits' must be a tuple with at least one name. Got {splits!r}. Write splits = (\"{example}\",), with the "
        "comma.",
    )
    known = get_args(Grading)
    expect(
        grading in known,
        f"'grading' must be one of {', '.join(map(repr, known))}. Got {grading!r}. Write grading = \"symbolic\" for "
        "any "
        "mathematics, or define grade().",
    )


def check_every_split_has_questions(plugin: Dataset) -> None:
    """Each question has a unique id, a text, an answer, and a level from 1 to 5 or None."""
    for split in plugin.splits:
        questions = _first(plugin, split)
        expect(
            len(questions) > 0,
            f"The split '{split}' must have questions. Got none. Leave it out of 'splits'.",
        )
        ids = [question.id for question in questions]
        twice = sorted({each for each in ids if ids.count(each) > 1})
        expect(
            not twice,
            f"Ids must be unique within a split. '{split}' has duplicates: {twice[:3]}. Number the questions, for "
            "instance with enumerate().",
        )
        for question in questions:
            expect(
                bool(question.text.strip()),
                f"Question {question.id} of '{split}' must have a text. Got none. Leave it out.",
            )
            expect(
                bool(question.answer.strip()) or isinstance(plugin, FollowedUpDataset),
                f"Question {question.id} of '{split}' must have an answer. Got none. Leave it out.",
            )
            expect(
                "\\boxed" not in question.answer,
                f"The answer of question {question.id} of '{split}' must not have a box. Got {question.answer!r}. "
                "Write "
                "what is in the box only.",
            )
            expect(
                question.level is None or question.level in range(1, 6),
                f"Question {question.id} of '{split}' must have a level from 1 to 5, or None. Got {question.level!r}. "
                "Write int(...), or None if it is not known.",
            )


def check_questions_keep_their_order(plugin: Dataset) -> None:
    """The questions are the same each time, and a larger count begins with those of a smaller one."""
    for split in plugin.splits:
        questions = _first(plugin, split)
        expect(
            questions == _first(plugin, split),
            f"The split '{split}' must have the same questions each time. Draw no random numbers, or "
            "use a fixed seed.",
        )
        fewer = (len(questions) + 1) // 2
        first = plugin.questions(split, fewer)
        expect(
            len(first) == fewer,
            f"questions('{split}', {fewer}) must return {fewer} questions. Got {len(first)}. Write `return "
            "found[:count]` in the last line.",
        )
        expect(
            first == questions[:fewer],
            f"The first {fewer} questions of '{split}' must also be the first of {len(questions)}. Put all questions "
            "in "
            "one order, and return the first of them.",
        )


def check_splits_are_disjoint(plugin: Dataset) -> None:
    """No question is in two splits, so that none is used for calibration and test."""
    home: dict[str, str] = {}
    for split in plugin.splits:
        for question in _first(plugin, split):
            other = home.setdefault(question.text, split)
            expect(
                other == split,
                f"Splits must be disjoint. {question.text[:60]!r} is in '{other}' and '{split}'. Leave it out of one "
                "of "
                "them.",
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
                f"questions({split!r}, {count}) must raise DataError. Got {type(error).__name__}: {error}. Write "
                "`raise DataError(...)` with a sentence that names the splits, or how many questions there are."
            ) from error
        raise AssertionError(
            f"questions({split!r}, {count}) must raise DataError. It raised nothing. Compare "
            "split with self.splits and count with the number of questions. DataError is in prmcal.errors."
        )


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
            graded = plugin.grade(question, trajectory)
            expect(
                isinstance(graded, tuple) and len(graded) == 2,
                f'grade() must return the verdict and the final answer. Got {graded!r}. Write `return "correct", '
                'answer`, or `return "unparsed", None`.',
            )
            verdict, _ = graded
            expect(
                verdict == expected,
                f"grade() of {trajectory!r} for question {question.id} must be '{expected}'. Got '{verdict}'. "
                "Choose another 'grading', or correct grade() or the answer.",
            )


DECLARATIONS = (check_splits_and_grading,)
CHECKS = (
    check_every_split_has_questions,
    check_questions_keep_their_order,
    check_splits_are_disjoint,
    check_unknown_splits_and_counts_are_refused,
    check_grading,
)
