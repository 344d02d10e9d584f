"""A slice of the shipped grid, end to end, with real models: rollouts to leaderboard.

A package of someone else's, installed by pip, brings another calibrator.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from prmcal.harness.cli.leaderboard import render_leaderboard
from tests.conftest import ROOT, environment_with_example
from tests.forked import run_command

CALIBRATORS = ["uncalibrated", "ats", "isotonic", "quantile-lora", "spline"]
STRATEGIES = ["pass@1", "majority vote", "best-of-n", "best-of-n + IAS", "oracle IAS"]
SEARCHES = ["beam search", "beam search + IAS-of-M"]
QUESTIONS, SAMPLES = 4, 6
BRIER = {
    "uncalibrated": (0.122548, 0.072408),
    "ats": (0.101677, 0.075359),
    "isotonic": (0.130678, 0.024519),
    "quantile-lora": (0.122541, 0.072229),
    "spline": (0.105031, 0.047379),
}
"""The Brier scores of the calibrators on nano-math and nano-aime, on another machine."""
Run = tuple[Path, Path, dict[str, str]]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The grid file, the folder of its uninterrupted run, and the environment with the package installed."""
    folder = tmp_path_factory.mktemp("nano")
    env = environment_with_example(folder)
    data = yaml.safe_load((ROOT / "grids" / "nano.yaml").read_text())
    data["llms"] = data["llms"][1:2]
    data["prms"] = data["prms"][:1]
    quick = {name: {"name": name, "arguments": {"epochs": 1}} for name in ("ats", "quantile-lora")}
    data["calibrators"] = [quick.get(name, name) for name in CALIBRATORS]
    small = {
        "arguments": {"width": 2, "expansions": 2},
        "prms": ["nano-prm"],
        "calibrators": ["quantile-lora"],
        "datasets": ["nano-math"],
    }
    data["strategies"] = [*STRATEGIES, *({"name": name, **small} for name in SEARCHES)]
    data["calibration"] |= {"trajectories": 2, "follow_ups": 4}
    data["measurement"] |= {"measured": 2, "replicates": 200, "follow_ups": 4}
    data["scaling"]["samples"] = SAMPLES
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump(data))
    done = run_command(list(map(str, arguments(path, folder / "out"))), env, ROOT)
    assert done.returncode == 0, done.stderr
    return path, folder / "out", env


def arguments(path: Path, out: Path) -> list[object]:
    return ["run", path, "--out", out, "--workers", 1, "--limit", QUESTIONS]


def rows(finished: Run, table: str) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads(render_leaderboard(finished[1], table, "json"))
    return loaded


def test_every_cell_is_filled(finished: Run) -> None:
    calibration = rows(finished, "calibration")
    assert len(calibration) == len(CALIBRATORS) * 2
    assert {row["calibrator"] for row in calibration} == set(CALIBRATORS)
    scaling = rows(finished, "scaling")
    assert {row["strategy"] for row in scaling} == {*STRATEGIES, *SEARCHES}
    for row in [*calibration, *scaling]:
        assert row["status"] == "done"
        assert row["questions"] == QUESTIONS
        assert row["rows"] >= QUESTIONS
    searched = [row for row in scaling if row["strategy"] in SEARCHES]
    assert len(searched) == len(SEARCHES)
    assert all(row["samples"] > 1 and row["prefill_tokens"] > 0 for row in searched)
    assert all(row["brier_low"] <= row["brier"] <= row["brier_high"] for row in calibration)


def test_numbers_are_those_of_another_machine(finished: Run) -> None:
    for row in rows(finished, "calibration"):
        expected = BRIER[row["calibrator"]][row["dataset"] == "nano-aime"]
        # Training follows the rounding errors of a processor.
        tolerance = 0.01 if row["calibrator"] in ("ats", "quantile-lora") else 1e-5
        assert row["brier"] == pytest.approx(expected, abs=tolerance)


def test_adaptive_runs_spend_no_more_than_the_fixed_one(finished: Run) -> None:
    adaptive = [row for row in rows(finished, "scaling") if row["strategy"] == "best-of-n + IAS"]
    assert adaptive
    for row in adaptive:
        assert 1 <= row["samples"] <= SAMPLES
        assert row["budget_ratio"] == pytest.approx(row["samples"] / SAMPLES)
        assert row["accuracy"] <= row["pass_at_n"] + 1e-9


def test_a_second_run_is_quick_and_loads_no_model(finished: Run) -> None:
    path, out, env = finished
    code = "import sys; from prmcal.harness.cli import main\n"
    code += "try: main()\nexcept SystemExit as end: assert not end.code\n"
    code += "assert 'torch' not in sys.modules"
    again = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments(path, out))],
        env=env,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert again.returncode == 0, again.stderr
    assert " 0 shards computed" in again.stderr
