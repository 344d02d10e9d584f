from __future__ import annotations

import fcntl
from pathlib import Path

import pandas as pd

from prmcal.db import catalog
from prmcal.db.queries.runs import progress
from prmcal.db.run_folder import LOCK_FILE, finished_artifacts, is_running
from prmcal.harness.jobs import parameters


def test_the_factory_has_kinds_of_jobs_that_exist(published: Path) -> None:
    kinds = {each.kind for each in vars(parameters).values() if "kind" in getattr(each, "__dict__", {})}
    assert "calibration_metrics" in kinds
    assert set(catalog.jobs(published)["kind"]) <= kinds


def test_a_failed_job_is_counted_with_its_kind(published: Path) -> None:
    planned = catalog.planned_shards(published).set_index("kind")
    assert planned.loc["calibration_metrics", ["jobs", "failed"]].tolist() == [12, 1]
    assert planned["failed"].sum() == 1


def test_progress_is_what_the_folder_holds_of_the_plan(tmp_path: Path) -> None:
    planned = pd.DataFrame(
        {
            "kind": ["rollout", "fit"],
            "jobs": [1, 1],
            "failed": [0, 0],
            "shard_keys": [["a", "b"], ["c"]],
            "seconds_per_shard": [10.0, None],
        }
    )
    (tmp_path / "artifacts" / "rollout" / "a").mkdir(parents=True)
    (tmp_path / "artifacts" / "rollout" / "of-an-earlier-grid").mkdir()
    found = progress(planned, tmp_path)
    assert found["done"].tolist() == [1, 0]
    assert found["seconds_left"].iloc[0] == 10
    assert found["seconds_left"].isna().tolist() == [False, True]


def test_a_folder_tells_whether_a_run_holds_it(tmp_path: Path) -> None:
    assert not is_running(tmp_path)
    with (tmp_path / LOCK_FILE).open("a") as lock:
        assert not is_running(tmp_path)
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert is_running(tmp_path)
    assert not is_running(tmp_path)


def test_a_folder_without_a_run_tells_nothing(tmp_path: Path) -> None:
    assert finished_artifacts(tmp_path, "rollout") == set()
