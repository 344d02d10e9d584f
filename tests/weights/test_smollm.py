"""The shipped grid `smollm` with its model: a small language model of a Python package."""

from __future__ import annotations

from pathlib import Path

import yaml

from prmcal.db.queries.leaderboard import leaderboard
from prmcal.registry.models.gguf import gguf_file, gguf_identity
from tests.conftest import Prmcal
from tests.test_smollm_grid import GRIDS, PACKAGE, copied


def test_the_head_was_fitted_to_the_model_of_the_package() -> None:
    file = gguf_file(PACKAGE)
    assert file is not None
    assert f"that of the language model is `{gguf_identity(file)}`" in (GRIDS / "smollm-head.md").read_text()


def test_a_slice_of_the_grid_fills_its_cells(tmp_path: Path, prmcal: Prmcal) -> None:
    path = copied(tmp_path)
    grid = yaml.safe_load(path.read_text())
    grid["scaling"]["samples"] = 2
    grid["calibration"] |= {"follow_ups": 2}
    grid |= {
        "calibrators": ["uncalibrated", "platt"],
        "strategies": ["pass@1", "best-of-n"],
        "sampling": {"temperature": 0.7, "max_tokens": 12},
        "measurement": {"measured": 1, "follow_ups": 2, "replicates": 100},
        "league": False,
    }
    path.write_text(yaml.safe_dump(grid))
    done = prmcal("run", path, "--out", tmp_path / "out", "--limit", 3, "--workers", 1)
    assert done.returncode == 0, done.stderr
    scaling = leaderboard(tmp_path / "out" / "leaderboard.duckdb", "scaling")
    assert set(scaling["status"]) == {"done"}
    assert set(scaling["prm"].dropna()) == {"smollm2-head", "smollm2-yes-no"}
