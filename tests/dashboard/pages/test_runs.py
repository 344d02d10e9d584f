"""Page Runs in a real browser: history, progress, and how to reproduce a cell."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml

from prmcal.dashboard.controls.address import link
from prmcal.dashboard.data import REFRESH_SECONDS
from prmcal.db import catalog
from prmcal.db.metrics import cell_id
from prmcal.db.queries.runs import planned_shards
from prmcal.db.run_folder import database_path, published_path
from prmcal.db.tables import Job, Run
from prmcal.db.writer import Writer
from tests.dashboard.conftest import GRID, IDLE, rows, run_in_progress
from tests.dashboard.pages.test_trajectories import grid

pytest.importorskip("playwright.sync_api", reason="the package 'playwright' is not installed")
from playwright.sync_api import Page, expect

CELL = cell_id("scaling", "strong", "nano-math", prm="qwen", strategy="best-of-n")


def test_runs_and_jobs_show_what_the_database_holds(page: Page, address: str, run_folder: Path) -> None:
    page.goto(f"{address}/" + link("runs", kind="score"))
    page.get_by_text("4 jobs.").wait_for()
    head, run = rows(page, 1)
    named = dict(zip(head, run, strict=True))
    assert (named["Run"], named["Grid"]) == ("run-1", "tiny")
    assert (named["Started (UTC)"], named["Machine"]) == ("2026-01-02 03:04", "2 cores")
    _, stored = catalog.job_page(published_path(run_folder), kind="score")
    head, *jobs = grid(page, len(stored))
    keys = [dict(zip(head, job, strict=True)) for job in jobs]
    assert [(key["Key"], key["Seed"]) for key in keys] == [(key, "11") for key in stored["job_key"]]


def test_progress_is_updated_and_a_cell_can_be_reproduced(
    page: Page, run_folder: Path, live: tuple[Path, str]
) -> None:
    directory, address = live
    shutil.copy(database_path(run_folder), database_path(directory))
    writer = Writer(database_path(directory))
    stored = catalog.runs(published_path(run_folder)).iloc[0].to_dict()
    shards = [{"key": f"shard-{place}", "seed": place} for place in range(3)]
    pending = Job(
        job_key="new", kind="rollout", parameters={"shards": shards}, status="pending", shards=len(shards)
    )
    writer.record([Run(**{**stored, "grid": GRID, "finished_at": None}), pending])
    writer.publish()
    planned = planned_shards(published_path(directory))["shard_keys"].map(len).sum()
    artifacts = directory / "artifacts" / "rollout"
    (artifacts / "shard-0").mkdir(parents=True)
    (artifacts / ".shard-1-half").mkdir()
    sent: list[object] = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(frame)))
    with run_in_progress(directory):
        page.goto(f"{address}/" + link("runs", cell=CELL))
        page.get_by_text(re.compile(rf"^Provisional.* 1 of {planned} shards")).wait_for()
        (artifacts / "shard-2").mkdir()
        page.get_by_text(re.compile(rf"^Provisional.* 2 of {planned} shards")).wait_for()
    page.get_by_text(f"not running: 2 of {planned} shards").wait_for()
    expect(page.get_by_text("Provisional")).to_have_count(0)
    for _ in range(5):  # A question may still be on its way.
        page.locator(IDLE).wait_for()
        before = len(sent)
        page.wait_for_timeout(2500 * REFRESH_SECONDS)
        if len(sent) == before:
            break
    assert len(sent) == before, "the page asks again although the run has ended"
    codes = page.get_by_test_id("stMain").get_by_test_id("stCode").locator("visible=true")
    expect(codes.nth(1)).to_contain_text(f"prmcal show {CELL} --dir")
    grid_of_cell = yaml.safe_load(codes.first.inner_text())
    names = [each["name"] for each in grid_of_cell["llms"] + grid_of_cell["datasets"]]
    assert names == ["strong", "nano-math"]
    assert [each["name"] for each in grid_of_cell["strategies"]] == ["best-of-n"]
