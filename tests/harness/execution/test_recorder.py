"""What the recorder writes about jobs, and how its work grows with their shards."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import yaml

from prmcal.db import catalog
from prmcal.db.writer import Writer
from prmcal.harness.execution.ending import Failure
from prmcal.harness.execution.events import ShardOutcome
from prmcal.harness.execution.recorder import Recorder
from prmcal.harness.execution.schedule import Schedule
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.storage.folder import RunFolder, RunRecord
from prmcal.harness.storage.store import Manifest
from prmcal.registry.plugins import load_plugin_file
from tests.conftest import PLUGINS
from tests.harness.scheduling.bare_plans import calls, planned


def recorder_of(plan: Plan, folder: Path) -> Recorder:
    record = RunRecord({"name": "any"}, [], "run", "2026-01-02T00:00:00+00:00")
    run = RunFolder(folder)
    return Recorder(Writer(run.database, run.published), run, plan, run.store, record, {})


@pytest.fixture(scope="module")
def plan() -> Plan:
    """A grid in which two names stand for the same data, so that jobs of the smaller one share all of their shards."""
    load_plugin_file(PLUGINS / "synthetic.py")
    data = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text())
    names = [("few", 20), ("many", 40)]
    data["datasets"] = [{"name": n, "plugin": "synthetic-questions", "questions": q} for n, q in names]
    return build_plan(GridSpec.model_validate(data | {"llms": data["llms"][:1]}))


def test_jobs_that_share_shards_are_all_done(plan: Plan, tmp_path: Path) -> None:
    shared = [shard for shard in plan.shards() if len(plan.owners(shard.ref)) > 1]
    assert {shard.ref.kind for shard in shared} >= {"rollout", "success", "score"}
    recorder = recorder_of(plan, tmp_path)
    with recorder.recording({}):
        for shard in plan.shards():
            recorder.note(ShardOutcome(shard.ref, Manifest({}, 1.0)))
        recorder.ending = "SIGTERM"
    jobs = catalog.jobs(RunFolder(tmp_path).published)
    assert len(jobs) == len({job.key for job in plan.jobs})
    assert set(jobs["status"]) == {"done"}


def test_a_job_has_failed_or_waits_for_one_that_has(plan: Plan, tmp_path: Path) -> None:
    recorder, schedule = recorder_of(plan, tmp_path), Schedule(plan, ())
    with recorder.recording({}):
        while (shard := schedule.take()) is not None:
            good = shard.ref.kind != "fit"
            of_shard = {"manifest": Manifest({}, 1.0)} if good else {"failure": Failure("no luck")}
            for outcome in schedule.finish(ShardOutcome(shard.ref, **of_shard)):
                recorder.note(outcome)
        recorder.ending = "SIGTERM"
    jobs = catalog.jobs(RunFolder(tmp_path).published)
    states = {kind: set(found["status"]) for kind, found in jobs.groupby("kind")}
    assert states["fit"] == {"failed"}
    assert states["calibrated"] == states["calibration_metrics"] == {"blocked"}
    assert states["rollout"] == states["score"] == {"done"}
    assert states["curves"] == {"done", "blocked"}


def note_all_but_the_last(recorder: Recorder) -> None:
    for shard in list(recorder.plan.shards())[:-1]:
        recorder.note(ShardOutcome(shard.ref, Manifest({}, 1.0)))


def test_the_work_grows_with_the_shards_of_a_job(tmp_path: Path) -> None:
    few, many = 100, 800
    found = []
    for shards in (few, many):
        recorder = recorder_of(planned([{}] * shards, [""] * shards), tmp_path / str(shards))
        with recorder.recording({}):
            found.append(calls(partial(note_all_but_the_last, recorder)))
            recorder.ending = "SIGTERM"
    assert found[0] >= few
    assert found[1] < 1.1 * many / few * found[0]
