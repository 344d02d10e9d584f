"""The checks for data sets."""

from typing import get_args

from prmcal.errors import DataError
from prmcal.registry.conformance.plugin import expect, further_checks
from prmcal.registry.contracts import results
from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.dataset import Dataset
from prmcal.registry.datasets.success_rates import SuccessRates
from prmcal.registry.grading import Grading

_MOST = 200
_MORE_THAN_ANY = 10**9
_NO_SPLIT = "no such split"


def _checked_questions(plugin: Dataset, split: str) -> list[Question]:
    """The questions of a split that are checked."""
    try:
        questions = plugin.questions(split, _MOST)
    except DataError:
        questions = plugin.questions(split)
    expect(
        isinstance(questions, list), f"questions() must return a list. Got {type(questions).__name__}. Write list(...)."
    )
    results.check_questions(questions)
    return questions


def _filled(plugin: Dataset) -> tuple[str, ...]:
    """The splits that must have questions. A file of success rates may have one split only."""
    return plugin.splits[:1] if isinstance(plugin, SuccessRates) else plugin.splits


def check_splits_and_grading(plugin: Dataset) -> None:
    """`splits` is a tuple of names, and `grading` is a known rule."""
    splits, grading = plugin.splits, plugin.grading
    names = isinstance(splits, (tuple, list)) and all(isinstance(name, str) for name in splits)
    expect(names and len(splits) > 0, f"'splits' must be a tuple of names. Got {splits!r}. Write splits = ('test',).")
    rules = get_args(Grading)
    expect(
        grading in rules,
        f"'grading' must be one of {', '.join(map(repr, rules))}. Got {grading!r}. Write grading = \"symbolic\" for "
        "any mathematics, or define grade().",
    )


def check_every_split_has_questions(plugin: Dataset) -> None:
    """Each question has a text, and an answer without a box."""
    for split in _filled(plugin):
        questions = _checked_questions(plugin, split)
        expect(len(questions) > 0, f"The split '{split}' must have questions. Got none. Leave it out of 'splits'.")
        for question in questions:
            expect(question.text.strip(), f"Question {question.id} must have a text. Got none. Leave it out.")
            answered = bool(question.answer.strip()) or isinstance(plugin, SuccessRates)
            expect(answered, f"Question {question.id} must have an answer. Got none. Leave it out.")
            expect(
                "\\boxed" not in question.answer,
                f"The answer of question {question.id} must not have a box. Got {question.answer!r}. Write what is "
                "in the box only.",
            )


def check_questions_keep_their_order(plugin: Dataset) -> None:
    """The questions are the same each time, and a larger count begins with the same questions as a smaller one."""
    for split in _filled(plugin):
        questions = _checked_questions(plugin, split)
        expect(
            questions == _checked_questions(plugin, split),
            f"The split '{split}' must have the same questions each time. Draw no random numbers, or use a fixed seed.",
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
            f"The first {fewer} questions of '{split}' must also be the first of more questions. Put all questions "
            "in one order, and return the first of them.",
        )


def check_splits_are_disjoint(plugin: Dataset) -> None:
    """No question is in two splits, so that none is used for calibration and test."""
    home: dict[str, str] = {}
    for split in _filled(plugin):
        for question in _checked_questions(plugin, split):
            other = home.setdefault(question.text, split)
            expect(other == split, f"Splits must be disjoint. {question.text[:60]!r} is in '{other}' and '{split}'.")


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
            f"questions({split!r}, {count}) must raise DataError. It raised nothing. Compare split with self.splits "
            "and count with the number of questions. DataError is in prmcal.errors."
        )


def check_grading(plugin: Dataset) -> None:
    """The reference answer in a box is correct, another answer is incorrect, and no box is unparsed."""
    if isinstance(plugin, SuccessRates):  # Success rates have no answers.
        return
    for question in filter(lambda question: question.answer, _checked_questions(plugin, plugin.splits[-1])):
        cases = (
            (f"So it is\n\n\\boxed{{{question.answer}}}", "correct"),
            ("So it is\n\n\\boxed{surely not this}", "incorrect"),
            ("I do not know.", "unparsed"),
        )
        for trajectory, expected in cases:
            grade = plugin.grade(question, trajectory)
            expect(
                isinstance(grade, tuple) and len(grade) == 2,
                f'grade() must return the verdict and the final answer. Got {grade!r}. Write `return "correct", '
                'answer`, or `return "unparsed", None`.',
            )
            verdict, _ = grade
            is_right = verdict == expected
            expect(is_right, f"grade() of {trajectory!r} must be '{expected}'. Got '{verdict}'. Change 'grading'.")


DECLARATIONS = (check_splits_and_grading,)
CHECKS = further_checks(globals(), DECLARATIONS)
