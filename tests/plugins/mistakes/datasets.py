"""Data sets of which each makes one mistake. The test says how `prmcal check` explains it."""

# mypy: ignore-errors

import itertools
import random
from dataclasses import asdict, replace

from prmcal import Dataset, Question, dataset
from prmcal.errors import DataError


class Sound(Dataset):
    """Ten sums in each of two splits."""

    splits = ("calibration", "test")

    def questions(self, split, count=None):
        if split not in self.splits or (count or 0) > 10:
            raise DataError(f"There are 10 questions in each of {', '.join(self.splits)}.")
        return [Question(f"{n}", f"{split}: {n}+1?", str(n + 1), 1 + n % 5) for n in range(10)][:count]


@dataset("no mistake")
class NoMistake(Sound):
    pass


@dataset("equal ids")
class EqualIds(Sound):
    def questions(self, split, count=None):
        return [replace(each, id="1") for each in super().questions(split, count)]


@dataset("overlapping splits")
class OverlappingSplits(Sound):
    def questions(self, split, count=None):
        return [replace(each, text=each.id) for each in super().questions(split, count)]


@dataset("dicts")
class Dicts(Sound):
    def questions(self, split, count=None):
        return [asdict(each) for each in super().questions(split, count)]


@dataset("answers as numbers")
class AnswersAsNumbers(Sound):
    def questions(self, split, count=None):
        return [replace(each, answer=int(each.answer)) for each in super().questions(split, count)]


@dataset("answers in boxes")
class AnswersInBoxes(Sound):
    def questions(self, split, count=None):
        return [replace(each, answer=f"\\boxed{{{each.answer}}}") for each in super().questions(split, count)]


@dataset("level as a list")
class LevelAsAList(Sound):
    def questions(self, split, count=None):
        return [replace(each, level=[3]) for each in super().questions(split, count)]


@dataset("ignores the count")
class IgnoresTheCount(Sound):
    def questions(self, split, count=None):
        super().questions(split, count)
        return super().questions(split)


@dataset("another order each time")
class AnotherOrderEachTime(Sound):
    calls = itertools.count()

    def questions(self, split, count=None):
        found = super().questions(split, count)
        random.Random(next(self.calls)).shuffle(found)
        return found


@dataset("KeyError for a split")
class KeyErrorForASplit(Sound):
    def questions(self, split, count=None):
        return super().questions({"calibration": "calibration", "test": "test"}[split], count)


@dataset("takes any split")
class TakesAnySplit(Sound):
    def questions(self, split, count=None):
        return super().questions("test" if split not in self.splits else split, count)


@dataset("splits as a text")
class SplitsAsAText(Sound):
    splits = "test"


@dataset("unknown grading")
class UnknownGrading(Sound):
    grading = "numeric"


@dataset("verdict alone")
class VerdictAlone(Sound):
    def grade(self, question, trajectory):
        return "correct"


@dataset("questions without a count")
class QuestionsWithoutACount(Sound):
    def questions(self, split):
        return super().questions(split)


@dataset("last questions")
class LastQuestions(Sound):
    def questions(self, split, count=None):
        return super().questions(split)[-len(super().questions(split, count)) :]


@dataset("nothing is right")
class NothingIsRight(Sound):
    def grade(self, question, trajectory):
        return "incorrect", None
