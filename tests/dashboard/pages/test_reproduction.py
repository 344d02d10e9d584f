"""The grid of one cell has jobs with the same keys as the jobs of the whole grid."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import yaml

from prmcal.dashboard.text.reproduction import commands, grid_of_cell
from prmcal.harness.planning.grid_file.read import read_grid
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.planner import build_plan
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


def test_a_grid_without_the_strategy_is_an_error() -> None:
    grid = yaml.safe_dump(
        {"name": "x", "llms": [], "prms": [], "calibrators": [], "datasets": [], "strategies": []}
    )
    cell = {"llm": "a", "prm": None, "calibrator": None, "dataset": "d", "target": None, "level": None}
    with pytest.raises(ValueError, match="unpack"):
        grid_of_cell(grid, {**cell, "strategy": "best-of-n"})
