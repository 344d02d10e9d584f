"""The data sets `nano-math` and `nano-aime`: generated arithmetic problems for the nano models."""

from __future__ import annotations

from typing import ClassVar

from prmcal.errors import DataError
from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.dataset import Dataset
from prmcal.registry.grading import Grading
from prmcal.registry.nano.problems import generate_split

__all__ = ["NanoAIME", "NanoMath"]


class _NanoDataset(Dataset):
    """Generated problems. A hash of each question's text determines its split, so the splits are disjoint."""

    generator_name: ClassVar[str]
    sizes: ClassVar[dict[str, int]]
    """The number of questions per split. The generator itself has no limit."""
    grading: Grading = "plain"

    def questions(self, split: str, count: int | None = None) -> list[Question]:
        """Generate the first `count` questions of a split; see :meth:`prmcal.Dataset.questions`."""
        if split not in self.sizes:
            raise DataError(
                f"{self.generator_name} has no split '{split}'. It has: {', '.join(self.splits)}."
            )
        size = self.sizes[split]
        if count is not None and count > size:
            raise DataError(
                f"The {split} split of {self.generator_name} has {size} questions, fewer than the {count} "
                "requested."
            )
        problems = generate_split(self.generator_name, split, size if count is None else count)
        return [
            Question(problem.id, problem.text, problem.answer, problem.level, problem.subject)
            for problem in problems
        ]


class NanoMath(_NanoDataset):
    """Chains of 2 to 9 operations at levels 1 to 5: the problems that the nano models are trained for."""

    generator_name = "nano-math"
    sizes: ClassVar[dict[str, int]] = {"train": 20_000, "calibration": 2_000, "test": 1_000}
    splits = tuple(sizes)


class NanoAIME(_NanoDataset):
    """Chains of 11 to 13 mostly hard operations, all of level 5. The nano PRMs have no Monte Carlo labels of them."""

    generator_name = "nano-aime"
    sizes: ClassVar[dict[str, int]] = {"train": 5_000, "test": 1_000}
    splits = tuple(sizes)
