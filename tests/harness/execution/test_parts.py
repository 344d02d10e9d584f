"""Runs of a part of a grid: the cells with certain names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import prmcal as face
from prmcal.harness.cli.app import ExitCode
from tests.conftest import Prmcal
from tests.harness.execution.synthetic_grid import SYNTHETIC, grid, run_arguments
from tests.one_process import run_here

BROKEN = """
from pathlib import Path
from prmcal import prm
from prmcal.registry.plugins import load_plugin_file
from prmcal.registry.plugins import prms

load_plugin_file(Path("{synthetic}"))

@prm("unlucky")
class Mine(prms.get("synthetic-prm")):
    def score(self, question, trajectories):
        {body}
        return super().score(question, trajectories)
"""


def small(folder: Path, **changes: Any) -> Path:
    llms = [{"name": name, "plugin": "synthetic-llm", "arguments": {"skill": skill}} for name, skill in
            (("weak", 0.7), ("strong", 0.9))]  # fmt: skip
    return grid(folder, **({"llms": llms, "strategies": ["pass@1", "best-of-n"]} | changes))


def statuses(out: Path, name: str) -> dict[str, set[str]]:
    """The statuses of the cells by a name that they have."""
    cells = face.open_run(out).cells
    return {str(each): set(found) for each, found in cells.groupby(name)["status"]}


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """A grid, and an empty folder that the tests below fill one after the other."""
    folder = tmp_path_factory.mktemp("parts")
    yield small(folder), folder / "out"


def test_a_part_is_run_and_the_rest_is_left(prmcal: Prmcal, parts: tuple[Path, Path]) -> None:
    path, out = parts
    planned = prmcal("plan", path, "--plugin", SYNTHETIC, "--only", "llm=weak")
    done = prmcal(*run_arguments(path, out, quiet=False), "--only", "llm=weak")
    assert done.returncode == 0, done.stderr
    assert "4 of 4 cells done" in done.stderr
    assert "The grid has 8 cells. To run all of them, leave out --only" in " ".join(done.stderr.split())
    assert "; 4 cells of the 8 of the grid." in planned.stdout
    assert statuses(out, "llm") == {"weak": {"done"}, "strong": {"pending"}}
    status = json.loads(prmcal("status", out, "--format", "json").stdout)
    assert (status["state"], status["cells"]) == (
        "partial",
        {"total": 8, "done": 4, "failed": 0, "pending": 4},
    )
    assert "leave out --only" in prmcal("status", out).stdout


def test_the_whole_grid_is_finished_from_its_parts(parts: tuple[Path, Path]) -> None:
    path, out = parts
    before = {each: each.stat().st_mtime_ns for each in out.glob("artifacts/*/*")}
    done = run_here(path, out)
    assert (done.reused, done.failed_cells) == (len(before), 0)
    assert {each: each.stat().st_mtime_ns for each in before} == before
    assert statuses(out, "llm") == {"weak": {"done"}, "strong": {"done"}}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("week", "--only must be KIND=NAME, such as llm=weak. Got 'week'."),
        ("llm=week", "The grid has no llm 'week'. Did you mean 'weak'?"),
    ],
)
def test_a_wrong_part_is_refused_before_anything_is_written(
    value: str, message: str, prmcal: Prmcal, tmp_path: Path
) -> None:
    refused = prmcal(*run_arguments(small(tmp_path), tmp_path / "out"), "--only", value)
    assert refused.returncode == ExitCode.BAD_INPUT
    assert message in refused.stderr
    assert not (tmp_path / "out").exists()


def test_failed_cells_are_tried_again_after_their_plugin_was_corrected(prmcal: Prmcal, tmp_path: Path) -> None:
    plugin, out = tmp_path / "mine.py", tmp_path / "out"

    def write(body: str) -> None:
        plugin.write_text(BROKEN.format(synthetic=SYNTHETIC, body=body))

    write("raise RuntimeError('out of luck')")
    prms = [{"name": "verifier", "plugin": "synthetic-prm"}, {"name": "mine", "plugin": "unlucky"}]
    path, weak = small(tmp_path, prms=prms), {"llm": ["weak"]}

    assert run_here(path, out, plugin, only=weak).failed_cells == 3
    assert statuses(out, "prm") == {"verifier": {"done", "pending"}, "mine": {"failed", "pending"}}

    assert run_here(path, out, plugin, only={"llm": ["strong"], "prm": ["verifier"]}).failed_cells == 0
    assert statuses(out, "prm") == {"verifier": {"done"}, "mine": {"failed", "pending"}}

    write("pass")
    assert run_here(path, out, plugin, only=weak).failed_cells == 0
    assert statuses(out, "prm") == {"verifier": {"done"}, "mine": {"done", "pending"}}
    assert json.loads(prmcal("status", out, "--format", "json").stdout)["state"] == "partial"
