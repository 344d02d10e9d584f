"""The checks for data sets."""

from typing import get_args

from prmcal.errors import DataError
from prmcal.registry.conformance.plugin import expect, failed, further_checks
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
    expect(isinstance(questions, list), "questions() must return a", questions=questions)
    results.check_questions(questions)
    return questions


def _filled(plugin: Dataset) -> tuple[str, ...]:
    """The splits that must have questions. A file of success rates may have those of one split only."""
    return plugin.splits[:1] if isinstance(plugin, SuccessRates) else plugin.splits


def check_splits_and_grading(plugin: Dataset) -> None:
    """`splits` is a tuple of names, and `grading` is a known rule."""
    splits, grading = plugin.splits, plugin.grading
    names = isinstance(splits, (tuple, list)) and all(isinstance(name, str) for name in splits)
    expect(names and len(splits) > 0, "splits must be a", splits=splits)
    rules = get_args(Grading)
    expect(grading in rules, "grading must be one", names=", ".join(map(repr, rules)), grading=grading)


def check_every_split_has_questions(plugin: Dataset) -> None:
    """Each question has a text, and an answer without a box."""
    for split in _filled(plugin):
        questions = _checked_questions(plugin, split)
        expect(len(questions) > 0, "the split must have", split=split)
        for question in questions:
            expect(question.text.strip(), "question of must have", question=question)
            answered = bool(question.answer.strip()) or isinstance(plugin, SuccessRates)
            expect(answered, "question of must have an", question=question)
            expect("\\boxed" not in question.answer, "the answer of question", question=question)


def check_questions_keep_their_order(plugin: Dataset) -> None:
    """The questions are the same each time, and a larger count begins with those of a smaller one."""
    for split in _filled(plugin):
        questions = _checked_questions(plugin, split)
        expect(questions == _checked_questions(plugin, split), "the split must have the", split=split)
        fewer = (len(questions) + 1) // 2
        first = plugin.questions(split, fewer)
        expect(len(first) == fewer, "questions must return questions", split=split, fewer=fewer, first=first)
        expect(first == questions[:fewer], "the first questions of", fewer=fewer, split=split)


def check_splits_are_disjoint(plugin: Dataset) -> None:
    """No question is in two splits, so that none is used for calibration and test."""
    home: dict[str, str] = {}
    for split in _filled(plugin):
        for question in _checked_questions(plugin, split):
            other = home.setdefault(question.text, split)
            expect(other == split, "splits must be disjoint", value=question.text[:60], other=other, split=split)


def check_unknown_splits_and_counts_are_refused(plugin: Dataset) -> None:
    """An unknown split, or a count that is too large, raises DataError."""
    for split, count in ((_NO_SPLIT, None), (plugin.splits[0], _MORE_THAN_ANY)):
        try:
            plugin.questions(split, count)
        except DataError:
            continue
        except Exception as error:
            raise failed("questions must raise dataerror got", split=split, count=count, error=error) from error
        raise failed("questions must raise dataerror", split=split, count=count)


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
            expect(isinstance(grade, tuple) and len(grade) == 2, "grade() must return the", graded=grade)
            verdict, _ = grade
            is_right = verdict == expected
            expect(is_right, "grade() of for question", trajectory=trajectory, expected=expected, verdict=verdict)


DECLARATIONS = (check_splits_and_grading,)
CHECKS = further_checks(globals(), DECLARATIONS)
