"""Data sets of which each makes one mistake, with the check that finds it and what it says."""

# mypy: ignore-errors

import itertools
import random
from dataclasses import asdict, replace

from prmcal import Dataset, Question
from prmcal.errors import DataError
from tests.registry.conformance.mistakes import mistake


class Sound(Dataset):
    """Ten sums in each of two splits."""

    splits = ("calibration", "test")

    def questions(self, split, count=None):
        if split not in self.splits or (count or 0) > 10:
            raise DataError(f"There are 10 questions in each of {', '.join(self.splits)}.")
        return [Question(f"{n}", f"{split}: {n}+1?", str(n + 1), 1 + n % 5) for n in range(10)][:count]


class NoMistake(Sound):
    pass


@mistake("every split has questions", "the same id, '1'. Number the questions")
class EqualIds(Sound):
    def questions(self, split, count=None):
        return [replace(each, id="1") for each in super().questions(split, count)]


@mistake("splits are disjoint", "Splits must be disjoint.* is in")
class OverlappingSplits(Sound):
    def questions(self, split, count=None):
        return [replace(each, text=each.id) for each in super().questions(split, count)]


@mistake("every split has questions", r"Got \{'id'.* Write Question\(id, text, answer\)")
class Dicts(Sound):
    def questions(self, split, count=None):
        return [asdict(each) for each in super().questions(split, count)]


@mistake("every split has questions", "Write what is in the box only")
class AnswersInBoxes(Sound):
    def questions(self, split, count=None):
        return [replace(each, answer=f"\\boxed{{{each.answer}}}") for each in super().questions(split, count)]


@mistake("questions keep their order", r"Got 10. Write `return found\[:count\]`")
class IgnoresTheCount(Sound):
    def questions(self, split, count=None):
        super().questions(split, count)
        return super().questions(split)


@mistake("questions keep their order", "Draw no random numbers, or use a fixed seed")
class AnotherOrderEachTime(Sound):
    calls = itertools.count()

    def questions(self, split, count=None):
        found = super().questions(split, count)
        random.Random(next(self.calls)).shuffle(found)
        return found


@mistake("unknown splits", r"Got KeyError.* Write `raise DataError\(\.\.\.\)`")
class KeyErrorForASplit(Sound):
    def questions(self, split, count=None):
        return super().questions({"calibration": "calibration", "test": "test"}[split], count)


@mistake("splits and grading", r"Write splits = \('test',\)")
class SplitsAsAText(Sound):
    splits = "test"


@mistake("splits and grading", 'Write grading = "symbolic"')
class UnknownGrading(Sound):
    grading = "numeric"


@mistake("methods take", r"Write def questions\(self, split, count=None\)")
class QuestionsWithoutACount(Sound):
    def questions(self, split):
        return super().questions(split)


@mistake("questions keep their order", "must also be the first of more questions")
class LastQuestions(Sound):
    def questions(self, split, count=None):
        return super().questions(split)[-len(super().questions(split, count)) :]


@mistake("grading", "must be 'correct'. Got 'incorrect'")
class NothingIsRight(Sound):
    def grade(self, question, trajectory):
        return "incorrect", None
