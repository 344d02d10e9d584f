"""The exported page, opened as a file in a real browser."""

from __future__ import annotations

import base64
import re
import shutil
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import pytest

from prmcal.db import catalog
from prmcal.db.metrics import Leaderboard
from prmcal.db.run_folder import published_path
from prmcal.errors import PrmcalError, RunError, StorageError
from prmcal.harness.cli.leaderboard import render_leaderboard
from prmcal.harness.site import write_page
from prmcal.harness.storage.folder import RunFolder
from tests.conftest import Prmcal
from tests.dashboard.conftest import as_shown, expect_cells
from tests.db import factory
from tests.harness.report import report_database

pytest.importorskip("playwright.sync_api", reason="the package 'playwright' is not installed")
from playwright.sync_api import Page, expect

HOSTILE = "<img src=x onerror=alert(1)>\"' onmouseover=alert(2) x='{{ 7*7 }}</script>"


@pytest.fixture(scope="module")
def exported(run_folder: Path, tmp_path_factory: pytest.TempPathFactory, prmcal: Prmcal) -> Path:
    out = tmp_path_factory.mktemp("site") / "page.html"
    out.write_text("an earlier one")
    done = prmcal("export", run_folder, "--html", out)
    assert (done.returncode, "page.html" in done.stderr) == (0, True), done.stderr
    return out


def open_page(page: Page, exported: Path, state: str = "") -> None:
    page.goto(exported.as_uri() + (f"#{state}" if state else ""))


def test_the_page_has_the_numbers_of_the_database(page: Page, exported: Path, run_folder: Path) -> None:
    open_page(page, exported)
    boards: dict[Leaderboard, str] = {"calibration": "brier_corrected", "scaling": "accuracy"}
    for name, metric in boards.items():
        frame = catalog.leaderboard(published_path(run_folder), name)
        expect_cells(page, list(frame["cell_id"])[:50], f"#{name}")
        for row in frame[frame["status"] == "done"].head(3).to_dict("records"):
            shown = as_shown(*(row[each] for each in (metric, f"{metric}_low", f"{metric}_high")))
            expect(page.locator(f"#{name} tr[data-cell='{row['cell_id']}']")).to_contain_text(shown)
    expect(page.locator("figure svg").first).to_be_visible()
    page.get_by_role("heading", name=re.compile("best")).wait_for()


def test_files_for_download_are_those_of_the_command_line(
    page: Page, exported: Path, run_folder: Path, tmp_path: Path
) -> None:
    shutil.copy(published_path(run_folder), published_path(tmp_path))
    (tmp_path / "run.json").write_text(
        '{"grid": {}, "plugin_files": [], "run_id": "run-1", "started_at": "2026-01-02T03:04:05"}'
    )
    assert RunFolder(tmp_path).record().run_id == "run-1"
    open_page(page, exported)
    for name in ("calibration", "scaling"):
        link = page.locator(f"#{name} a[download='{name}.csv']").get_attribute("href") or ""
        text = base64.b64decode(link.removeprefix("data:text/csv;base64,")).decode()
        assert text == render_leaderboard(tmp_path, name, "csv")


def test_a_reader_sorts_by_numbers_searches_and_chooses_columns(page: Page, exported: Path, run_folder: Path) -> None:
    open_page(page, exported)
    board = page.locator("#calibration")
    head = board.get_by_role("columnheader", name="Brier, corrected")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    frame = catalog.leaderboard(published_path(run_folder)).dropna(subset=["brier_corrected"])
    best_first = list(frame.sort_values("brier_corrected", kind="stable")["cell_id"])
    expect(board.locator("tbody tr").first).to_have_attribute("data-cell", best_first[0])
    board.get_by_role("searchbox").fill("isotonic aime strong")
    expect_cells(page, [factory.FAILED_CELL], "#calibration")
    other = board.locator("th", has=page.get_by_text("ECE", exact=True))
    expect(other).to_be_hidden()
    board.get_by_label("All columns").check()
    expect(other).to_be_visible()


def test_a_link_to_a_row_and_a_cell_of_the_overview_mark_the_row(page: Page, exported: Path, run_folder: Path) -> None:
    wanted = catalog.leaderboard(published_path(run_folder))["cell_id"][7]
    open_page(page, exported, f"calibration.row={quote(wanted, safe='')}")
    marked = page.locator("tr[aria-current]")
    expect(marked).to_have_attribute("data-cell", wanted)
    expect(marked).to_be_in_viewport()
    page.locator("#leaderboard a[href*='calibration.row']").first.click()
    expect(marked).not_to_have_attribute("data-cell", wanted)
    expect(marked).to_be_in_viewport()


def test_a_failed_cell_has_its_reason(page: Page, exported: Path) -> None:
    open_page(page, exported)
    failed = page.locator(f"tr[data-cell='{factory.FAILED_CELL}']")
    expect(failed).to_contain_text(f"failed: {factory.REASON}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_in_light_and_dark(page: Page, exported: Path, scheme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 390, "height": 800})
    open_page(page, exported)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.evaluate("document.documentElement.scrollHeight") < 12_000
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")


def test_hostile_names_are_text(page: Page, tmp_path: Path) -> None:
    run = report_database.build(tmp_path / "run", llms=(HOSTILE, "strong"), prms=("prm_a",))
    write_page(run, tmp_path / "page.html")
    open_page(page, tmp_path / "page.html")
    row = page.locator("#calibration tbody tr").first
    assert HOSTILE in row.locator("td").all_inner_texts()
    expect(page.locator("img[src=x]")).to_have_count(0)


def test_what_cannot_be_written_is_named(run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prmcal.harness.site.writer.can_draw", lambda: False)
    with pytest.raises(PrmcalError, match=r"--html must end in \.html"):
        write_page(run_folder, tmp_path / "site")
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(StorageError, match="is not a file"):
        write_page(run_folder, tmp_path / "folder.html")
    with pytest.raises(RunError, match="No grid was run"):
        write_page(tmp_path / "nothing", tmp_path / "page.html")
