"""The grid of one cell has jobs with the same keys as the jobs of the whole grid."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import yaml

from prmcal.dashboard.reproduction import commands, grid_of_cell
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.planning.reading import read_grid
from prmcal.harness.storage.folder import grid_text
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def whole() -> tuple[str, Plan]:
    grid = read_grid(ROOT / "grids" / "nano.yaml").limited(4)
    return grid_text(grid.model_dump(mode="json")), build_plan(grid)


@pytest.mark.parametrize(
    "cell_id",
    [
        "calibration/nano-weak/nano-shepherd/isotonic/nano-aime",
        "calibration/nano-middle/nano-prm/quantile-lora/nano-math",
        "scaling/nano-weak/nano-math/pass@1",
        "scaling/nano-strong/nano-prm/nano-math/oracle-ias/C=0.99",
        "scaling/nano-weak/nano-prm/quantile-lora/nano-math/fixed-n-of-equal-cost/C=0.99/beta=0.1",
        "scaling/nano-weak/nano-prm/isotonic/nano-math/best-of-n+ias/C=0.99/beta=0.5",
    ],
)
def test_the_jobs_of_one_cell_have_the_keys_of_the_whole_grid(
    whole: tuple[str, Plan], tmp_path: Path, cell_id: str
) -> None:
    text, plan = whole
    (cell,) = [each for each in plan.cells if each.cell_id == cell_id]
    row = {
        **{name: getattr(cell.labels, name) or None for name in ("llm", "prm", "calibrator", "dataset")},
        "strategy": cell.strategy or None,
        "target": cell.target,
        "level": cell.level,
    }
    file = tmp_path / "cell.yaml"
    file.write_text(grid_of_cell(text, row))
    again = build_plan(read_grid(file))
    (found,) = [each for each in again.cells if each.cell_id == cell_id]
    assert found.job.key == cell.job.key
    assert len(again.cells) <= 4
    assert len(again.jobs) < len(plan.jobs) / 10


def test_commands_are_quoted_for_the_shell() -> None:
    run, show = commands("scaling/a b/$(rm)", ["/home/me/my plugin.py"]).splitlines()
    assert shlex.split(run)[-2:] == ["--plugin", "my plugin.py"]
    assert shlex.split(show)[2] == "scaling/a b/$(rm)"


NAMES = {
    "llms": ["weak", "weak (old)"],
    "prms": ["qwen"],
    "calibrators": ["temperature", "isotonic"],
    "datasets": ["nano-math"],
    "strategies": ["best-of-n"],
}
GRID = yaml.safe_dump(
    {
        "name": "x",
        "seed": 2,
        **{section: [{"name": name} for name in names] for section, names in NAMES.items()},
    }
)
CELL = {
    "cell_id": "calibration/weak (seed 2)/qwen/isotonic (version 0)/nano-math",
    "base_id": "calibration/weak/qwen/isotonic/nano-math",
    "leaderboard": "calibration",
    "llm": "weak",
    "prm": "qwen",
    "calibrator": "isotonic",
    "dataset": "nano-math",
    "strategy": None,
    "target": None,
    "level": None,
}


@pytest.mark.parametrize("missing", ["llm", "prm", "calibrator", "dataset", "strategy"])
def test_a_grid_without_a_name_of_the_cell_is_an_error(missing: str) -> None:
    with pytest.raises(ValueError, match=r"unpack|does not have 'other'"):
        grid_of_cell(GRID, {**CELL, missing: "other"})
