"""The exported site, opened as files in a real browser."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import pytest

from prmcal.db import catalog
from prmcal.db.metrics import Leaderboard
from prmcal.db.run_folder import published_path
from prmcal.errors import RunError, StorageError
from prmcal.harness.cli.leaderboard import render_leaderboard
from prmcal.harness.site import write_site
from prmcal.harness.storage.folder import RunFolder
from tests.conftest import Prmcal
from tests.dashboard.conftest import as_shown, expect_cells
from tests.db import factory
from tests.harness.report import report_database

pytest.importorskip("playwright.sync_api", reason="the package 'playwright' is not installed")
from playwright.sync_api import Page, expect

HOSTILE = "<img src=x onerror=alert(1)>\"' onmouseover=alert(2) x='{{ 7*7 }}</script>"


@pytest.fixture(scope="module")
def site(run_folder: Path, tmp_path_factory: pytest.TempPathFactory, prmcal: Prmcal) -> Path:
    out = tmp_path_factory.mktemp("site") / "site"
    done = prmcal("export", run_folder, "--html", out)
    assert (done.returncode, "index.html" in done.stderr) == (0, True), done.stderr
    return out


@pytest.fixture
def without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prmcal.harness.site.writer.can_draw", lambda: False)


def open_site(page: Page, site: Path, state: str = "", file: str = "index.html") -> None:
    page.goto((site / file).as_uri() + (f"#{state}" if state else ""))


def test_the_page_has_the_numbers_of_the_database(page: Page, site: Path, run_folder: Path) -> None:
    open_site(page, site)
    boards: dict[Leaderboard, str] = {"calibration": "brier_corrected", "scaling": "accuracy"}
    for name, metric in boards.items():
        frame = catalog.leaderboard(published_path(run_folder), name)
        expect_cells(page, list(frame["cell_id"])[:50], f"#{name}")
        for row in frame[frame["status"] == "done"].head(3).to_dict("records"):
            shown = as_shown(*(row[each] for each in (metric, f"{metric}_low", f"{metric}_high")))
            expect(page.locator(f"#{name} tr[data-cell='{row['cell_id']}']")).to_contain_text(shown)
    figures = list(site.glob("*.svg"))
    assert figures
    expect(page.locator("figure img")).to_have_count(len(figures))
    page.get_by_role("heading", name="Ranking").wait_for()


def test_files_for_download_are_those_of_the_command_line(
    site: Path, run_folder: Path, tmp_path: Path
) -> None:
    shutil.copy(published_path(run_folder), published_path(tmp_path))
    (tmp_path / "run.json").write_text(
        '{"grid": {}, "plugin_files": [], "run_id": "run-1", "started_at": "2026-01-02T03:04:05"}'
    )
    assert RunFolder(tmp_path).record().run_id == "run-1"
    for name in ("calibration", "scaling"):
        assert (site / f"{name}.csv").read_text() == render_leaderboard(tmp_path, name, "csv")


def test_a_reader_sorts_by_numbers_searches_and_chooses_columns(
    page: Page, site: Path, run_folder: Path
) -> None:
    open_site(page, site)
    board = page.locator("#calibration")
    head = board.get_by_role("columnheader", name="Brier, corrected")
    head.click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    frame = catalog.leaderboard(published_path(run_folder)).dropna(subset=["brier_corrected"])
    best_first = list(frame.sort_values("brier_corrected", kind="stable")["cell_id"])
    expect(board.locator("tbody tr").first).to_have_attribute("data-cell", best_first[0])
    board.get_by_role("searchbox").fill("isotonic aime strong")
    expect_cells(page, [factory.FAILED_CELL], "#calibration")
    board.get_by_role("button", name="Columns").click()
    page.get_by_role("button", name="ECE", exact=True).click()
    expect(board.locator("thead")).to_contain_text("ECE")


def test_a_link_to_a_row_and_a_cell_of_the_overview_mark_the_row(
    page: Page, site: Path, run_folder: Path
) -> None:
    wanted = catalog.leaderboard(published_path(run_folder))["cell_id"][7]
    open_site(page, site, f"calibration.row={quote(wanted, safe='')}")
    marked = page.locator("tr[aria-current]")
    expect(marked).to_have_attribute("data-cell", wanted)
    expect(marked).to_be_in_viewport()
    page.locator("#overview a[href*='calibration.row']").first.click()
    expect(marked).not_to_have_attribute("data-cell", wanted)
    expect(marked).to_be_in_viewport()


def test_a_failed_cell_has_its_reason(page: Page, site: Path) -> None:
    open_site(page, site)
    failed = page.locator(f"tr[data-cell='{factory.FAILED_CELL}']")
    expect(failed).to_contain_text(f"failed: {factory.REASON}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_in_light_and_dark(page: Page, site: Path, scheme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 390, "height": 800})
    open_site(page, site)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.evaluate("document.documentElement.scrollHeight") < 12_000
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")


@pytest.mark.usefixtures("without_figures")
def test_hostile_names_are_text(page: Page, tmp_path: Path) -> None:
    run = report_database.build(tmp_path / "run", llms=(HOSTILE, "strong"), prms=("prm_a",))
    write_site([run], tmp_path / "site")
    open_site(page, tmp_path / "site")
    row = page.locator("#calibration tbody tr").first
    assert HOSTILE in row.locator("td").all_inner_texts()
    expect(page.locator("img[src=x]")).to_have_count(0)


def test_captions_name_no_table_that_the_site_lacks(page: Page, site: Path) -> None:
    open_site(page, site)
    captions = page.locator("figcaption").all_inner_texts()
    assert len(captions) > 0
    assert [each for each in captions if "Table" in each or "table below" in each] == []


@pytest.mark.usefixtures("without_figures")
def test_an_earlier_site_is_replaced_and_nothing_else(run_folder: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("years of work")
    with pytest.raises(StorageError, match="do not belong to a site, such as thesis"):
        write_site([run_folder], mine)
    assert [path.name for path in mine.iterdir()] == ["thesis.tex"]
    files = write_site([run_folder], tmp_path / "site")
    assert [file.name for file in files] == [
        "calibration.csv",
        "index.html",
        "league.csv",
        "scaling.csv",
        "site.json",
    ]
    assert write_site([run_folder], tmp_path / "site") == files
    with pytest.raises(RunError, match="No grid was run"):
        write_site([tmp_path / "nothing"], tmp_path / "other")


@pytest.mark.usefixtures("without_figures")
def test_several_runs_have_pages_and_their_differences(page: Page, run_folder: Path, tmp_path: Path) -> None:
    other = report_database.build(tmp_path / "index", llms=("weak",), prms=("qwen",))
    copied = tmp_path / "again" / run_folder.name
    shutil.copytree(run_folder, copied)
    write_site([run_folder, copied, other], tmp_path / "site")
    first, again = run_folder.name, f"{run_folder.name}-2"
    open_site(page, tmp_path / "site")
    page.get_by_role("heading", name="PRM calibration: 3 runs").wait_for()
    same = page.get_by_role("region", name=f"Calibration: Brier, corrected, {first} and {again}")
    values = _columns(same.locator("tbody tr").first.locator("td").all_inner_texts())
    assert values[-3].split()[0] == values[-2].split()[0]
    assert values[-1].split()[0] == "0.000"
    page.get_by_role("link", name=again, exact=True).click()
    page.get_by_role("navigation", name="Runs").get_by_role("link", name="index-2").click()
    page.locator("#calibration tbody tr").first.wait_for()
    with (tmp_path / "site" / f"{again}-calibration.csv").open() as file:
        assert len(list(csv.reader(file))) == 13


def _columns(texts: Sequence[str]) -> list[str]:
    return [" ".join(text.split()) for text in texts]
