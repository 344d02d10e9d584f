"""`prmcal export-prm` exports the PRM of a cell at the level that is asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from prmcal.db.metrics import cell_id
from tests.conftest import PLUGINS, Prmcal
from tests.one_process import run_here

PLUGIN = """
import json
import numpy as np
from prmcal import Calibrator, calibrator


@calibrator("writing")
class Writing(Calibrator):
    levels = (0.1, 0.5)

    def fit(self, features, k, n):
        self.rate_ = float(k.sum() / n.sum())
        return self

    def predict(self, features):
        return np.full((len(features), 2), self.rate_)

    def export(self, prm, folder, level=0.5):
        folder.mkdir(exist_ok=True)
        (folder / "exported.json").write_text(json.dumps([prm.plugin_name, self.rate_, level]))
        (folder / "README.md").write_text("---\\ntags: [mine]\\n---\\n\\n# weak, calibrated\\n\\nMy card.\\n")
"""
CELL = "calibration/weak/verifier/{}/synthetic-questions"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    (folder / "plugin.py").write_text(PLUGIN)
    grid = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text()) | {
        "calibrators": ["uncalibrated", "writing"],
        "calibration": {"name": "synthetic-questions", "questions": 4, "trajectories": 2, "follow_ups": 4},
        "datasets": [{"name": "synthetic-questions", "questions": 4}],
        "measurement": {"measured": 2, "follow_ups": 4, "replicates": 100},
        "scaling": {"samples": 4},
        "strategies": ["pass@1"],
    }
    (folder / "grid.yaml").write_text(yaml.safe_dump(grid))
    assert run_here(folder / "grid.yaml", folder / "out", folder / "plugin.py").failed_cells == 0
    return folder / "out"


def test_the_reward_has_the_level_that_is_asked_for(finished: Path, prmcal: Prmcal, tmp_path: Path) -> None:
    for given, level in ((["--level", 0.1], 0.1), ([], 0.5)):
        out = tmp_path / f"{level}"
        done = prmcal("export-prm", CELL.format("writing"), "--dir", finished, "--out", out, *given)
        assert done.returncode == 0, done.stderr
        assert json.loads((out / "exported.json").read_text())[2] == level


def test_what_cannot_be_exported_is_refused(finished: Path, prmcal: Prmcal, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    for cell, out, message in (
        (CELL.format("uncalibrated"), "new", "does not change the PRM"),
        (CELL.format("other"), "new", "There is no cell"),
        (cell_id("scaling", "weak", "synthetic-questions", strategy="pass@1"), "new", "has no calibrator"),
        (CELL.format("writing"), "taken", "already exists"),
    ):
        done = prmcal("export-prm", cell, "--dir", finished, "--out", tmp_path / out)
        assert (done.returncode, message in " ".join(done.stderr.split())) == (2, True), done.stderr
        assert not (tmp_path / "new").exists()
