"""Calibrators read the same hidden states whether they are stored or computed when they are read."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from prmcal.harness.jobs import calibrators as reading
from prmcal.harness.jobs.calibrators import ComputedStates
from prmcal.harness.jobs.context import Models
from prmcal.harness.jobs.parameters import PluginReference
from prmcal.harness.planning.saved import read_plan
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import Store
from prmcal.registry.contracts.data import HiddenStates, ScoringRequest
from prmcal.registry.plugins import calibrators, prms
from tests.conftest import ROOT, Prmcal, environment
from tests.forked import begun_command

PRM: dict[str, Any] = {"checkpoint": "nano:prm", "dtype": "float32"}
GRID: dict[str, Any] = {
    "name": "hidden",
    "llms": [{"name": "llm", "plugin": "transformers", "arguments": {"checkpoint": "nano:weak"}}],
    "prms": [{"name": "prm", "plugin": "qwen", "arguments": PRM}],
    "calibrators": [{"name": "ats", "arguments": {"epochs": 2}}, "beta-binomial"],
    "calibration": {"name": "nano-math", "questions": 4, "trajectories": 3, "follow_ups": 2},
    "datasets": [{"name": "nano-math", "questions": 2}],
    "sampling": {"temperature": 1.0, "max_tokens": 128},
    "measurement": {"measured": 2, "follow_ups": 2, "replicates": 100},
    "scaling": {"samples": 2, "levels": [0.5]},
    "strategies": ["pass@1"],
    "shards": {"questions": 4, "trajectories": 2},  # The trajectories of a question are in two shards.
}


def rewards(out: Path) -> dict[str, pd.DataFrame]:
    """The calibrated rewards of a run, by job."""
    plan, store = read_plan(out, RunFolder(out).record().grid), Store(out)
    jobs = [job for job in plan.jobs if job.kind == "calibrated"]
    return {str(job): store.read(job.refs[0], "calibrated_rewards").to_pandas() for job in jobs}


def test_rewards_are_those_of_stored_states_also_after_a_kill(tmp_path: Path, prmcal: Prmcal) -> None:
    path, out = tmp_path / "grid.yaml", tmp_path / "out"
    path.write_text(yaml.safe_dump(GRID))
    asked = ["run", path, "--out", out, "--workers", 1]
    assert prmcal(*asked).returncode == 0
    stored = rewards(out)
    fits = len(list(out.glob("artifacts/fit/*/artifact.json")))
    path.write_text(yaml.safe_dump({**GRID, "hidden": "computed"}))
    shutil.rmtree(out / "artifacts" / "hidden")

    (streams := tmp_path / "streams").mkdir()
    killed = begun_command(list(map(str, asked)), environment(), ROOT, streams)
    while len(list(out.glob("artifacts/fit/*/artifact.json"))) <= fits and killed.exitcode is None:
        time.sleep(0.02)
    killed.kill()
    killed.join()
    done = prmcal(*asked)
    assert done.returncode == 0, done.stderr
    assert not (out / "artifacts" / "hidden").exists()

    computed = rewards(out)
    assert computed.keys() == stored.keys() and len(stored) == 2
    for name, table in stored.items():
        pd.testing.assert_frame_equal(computed[name], table, rtol=0, atol=1e-6)


@pytest.mark.parametrize("room", [0, 2**30])
def test_fits_read_what_the_prm_computes(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With little room, states are computed again for each question that is read."""
    monkeypatch.setattr(reading, "KEPT_STATES", room)
    requests = [
        ScoringRequest(f"Start with {number}. a) add 1.", ((f"a) {number}+1",), ("a) 2", "b) 3")))
        for number in range(5)
    ]
    prm = prms.create("qwen", **PRM)
    forests = prm.hidden_states(requests)
    whole = HiddenStates.concatenate(forests)
    halves = whole.states.astype(np.float16).astype(np.float32)
    counts = [len(each) for each in forests]
    states = ComputedStates(Models(), PluginReference("prm", "qwen", PRM), list(zip(requests, counts, strict=True)))
    computed = states.prefixes(np.repeat(np.arange(5), counts), np.concatenate([*map(np.arange, counts)]), whole.logit)
    assert states.shape == halves.shape
    np.testing.assert_array_equal(computed.parents, whole.parents)
    np.testing.assert_array_equal(computed.leaves, whole.leaves)
    some = np.array([[len(halves) - 1, 0], [7, 0]])
    np.testing.assert_array_equal(states[some], halves[some])
    np.testing.assert_array_equal(states[:], halves)

    known = HiddenStates(halves, whole.parents, whole.leaves, whole.logit)
    n = np.full(len(whole), 4)
    k = np.arange(len(whole)) % 5
    fits: list[Any] = [calibrators.create("ats", epochs=2, batch_size=2).fit(each, k, n) for each in (known, computed)]
    np.testing.assert_array_equal(fits[0].weights_, fits[1].weights_)
