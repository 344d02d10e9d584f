"""The runs that the tests of sharing share: a small run with a calibrator that fails, and runs of parts of a grid."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

import prmcal
from prmcal.harness.share.bundle import About
from prmcal.harness.share.writing import write_bundle
from prmcal.registry.plugins import load_plugin_file
from tests.conftest import PLUGINS
from tests.harness.share import small_runs
from tests.shared import made_once

ABOUT = About("Lab A", "CC-BY-4.0", "First try.")
PATH = "/home/ada/secret-project/weights.bin"
BROKEN = f'''
from prmcal import Calibrator, calibrator

@calibrator("gone")
class Gone(Calibrator):
    """It cannot read a file of this machine."""

    def fit(self, features, k, n):
        raise FileNotFoundError("There is no file {PATH} on ada@wolke7.intern.example")

    def predict(self, features):
        return features[:, None]
'''


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run. Tests must not write to it."""
    return made_once(tmp_path_factory, "bundled", _run_with_a_broken_calibrator) / "run"


def _run_with_a_broken_calibrator(folder: Path) -> None:
    broken = folder / "gone.py"
    broken.write_text(BROKEN)
    grid = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text()) | {
        "llms": [{"name": "weak", "plugin": "synthetic-llm", "arguments": {"skill": 0.7}}],
        "calibrators": ["uncalibrated", "temperature", "gone"],
        "datasets": [{"name": "synthetic-questions", "questions": 10}],
        "calibration": {
            "name": "synthetic-questions",
            "questions": 12,
            "trajectories": 2,
            "follow_ups": 4,
        },
        "measurement": {"measured": 2, "follow_ups": 4, "replicates": 100},
        "scaling": {"samples": 4, "targets": [0.9], "levels": [0.1]},
    }
    prmcal.run(grid, folder / "run", workers=1, plugins=[PLUGINS / "synthetic.py", broken])


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of the run, for tests that change it."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


@pytest.fixture(scope="session")
def bundle(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of all finished cells of the run."""
    path = tmp_path_factory.mktemp("bundle") / "lab-a.bundle"
    write_bundle(finished, None, path, ABOUT)
    return path


load_plugin_file(PLUGINS / "synthetic.py")


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of the whole grid."""
    return made_once(tmp_path_factory, "whole", small_runs.run)


@pytest.fixture(scope="session")
def parts(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The runs of the parts. The first one is computed from the beginning."""

    def make(root: Path) -> None:
        for name, part in small_runs.PARTS.items():
            small_runs.run(root / name, part, None if name == "llm" else whole)

    root = made_once(tmp_path_factory, "parts", make)
    return {name: root / name for name in small_runs.PARTS}


@pytest.fixture(scope="session")
def second_seed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The part with one LLM, run with another seed."""
    part = small_runs.Part({**small_runs.PARTS["llm"].changes, "seed": 4})
    return made_once(tmp_path_factory, "second-seed", lambda folder: small_runs.run(folder, part))
