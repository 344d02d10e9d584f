"""The exported site, opened as files in a real browser."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

import pytest

from prmcal.db.queries import catalog
from prmcal.db.run_folder import published_path
from prmcal.errors import RunError, StorageError
from prmcal.harness.commands.leaderboard import render_leaderboard
from prmcal.harness.site import write_site
from prmcal.harness.site.contents import board
from prmcal.harness.storage.folder import RunFolder
from tests.conftest import Prmcal
from tests.db import factory
from tests.harness.report import report_database

pytest.importorskip("playwright.sync_api", reason="the package 'playwright' is not installed")
from playwright.sync_api import Page

HOSTILE = "<img src=x onerror=alert(1)>\"' onmouseover=alert(2) x='{{ 7*7 }}"
SHOWN = "[...document.querySelectorAll('#{} tbody tr')].filter(row => !row.hidden).map(row => row.dataset.{})"


@pytest.fixture(scope="module")
def site(run_folder: Path, tmp_path_factory: pytest.TempPathFactory, prmcal: Prmcal) -> Path:
    out = tmp_path_factory.mktemp("site") / "site"
    done = prmcal("export", run_folder, "--html", out)
    assert (done.returncode, "index.html" in done.stderr) == (0, True), done.stderr
    return out


@pytest.fixture
def without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prmcal.harness.site.writer._has_matplotlib", lambda: False)


def open_site(page: Page, site: Path) -> None:
    page.goto((site / "index.html").as_uri())
    page.locator("#calibration output", has_text="of 12 cells").wait_for()


def test_the_page_has_the_numbers_of_the_database(page: Page, site: Path, run_folder: Path) -> None:
    open_site(page, site)
    for name in ("calibration", "scaling"):
        frame = catalog.leaderboard(published_path(run_folder), name)
        expected = board(frame, name)
        values = page.evaluate(
            f"[...document.querySelectorAll('#{name} tbody tr')].map(row => [row.dataset.cell, "
            "[...row.querySelectorAll('[data-value]')].map(cell => Number(cell.dataset.value))])"
        )
        metrics = [metric.name for metric in expected.metrics]
        assert values == [
            [row["cell_id"], [row[metric] for metric in metrics if row[metric] == row[metric]]]
            for row in frame.to_dict("records")
        ]
    row = frame.to_dict("records")[0]
    first = page.locator("#scaling tbody tr").first.locator("td.number").first.inner_text()
    assert first == f"{row['accuracy']:.3f} [{row['accuracy_low']:.3f}, {row['accuracy_high']:.3f}]"
    assert page.locator("figure img").count() == len(list(site.glob("*.png"))) > 0


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


def test_rows_are_sorted_and_filtered(page: Page, site: Path, run_folder: Path) -> None:
    open_site(page, site)
    page.locator("#calibration [data-filter=llm]").select_option("strong")
    assert set(page.evaluate(SHOWN.format("calibration", "llm"))) == {"strong"}
    page.get_by_text("6 of 12 cells").wait_for()
    page.locator("#calibration").get_by_role("button", name="Brier, corrected", exact=True).click()
    frame = catalog.leaderboard(published_path(run_folder), llm=["strong"]).dropna(subset=["brier_corrected"])
    ordered, reverse = (
        [
            *frame.sort_values("brier_corrected", ascending=best_first, kind="stable")["cell_id"],
            factory.FAILED_CELL,
        ]
        for best_first in (True, False)
    )
    assert page.evaluate(SHOWN.format("calibration", "cell")) == ordered
    page.locator("#calibration").get_by_role("button", name="Brier, corrected", exact=True).click()
    assert page.evaluate(SHOWN.format("calibration", "cell")) == reverse
    hidden = page.locator("#calibration").get_by_role("button", name="ECE", exact=True)
    assert not hidden.is_visible()
    page.locator("#calibration").get_by_label("All metrics").check()
    assert hidden.is_visible()


def test_a_failed_cell_has_its_reason_and_the_paper_a_place_of_its_own(page: Page, site: Path) -> None:
    open_site(page, site)
    assert page.locator(".failures li").inner_text() == f"{factory.FAILED_CELL} {factory.REASON}"
    page.get_by_text("Best-of-n, Qwen-PRM-7B").click()
    assert page.get_by_role("region", name="Best-of-n, Qwen-PRM-7B").locator("tbody tr").count() > 10
    assert page.locator(".board #paper, #paper .board").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_in_light_and_dark(page: Page, site: Path, scheme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 390, "height": 800})
    open_site(page, site)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")


@pytest.mark.usefixtures("without_matplotlib")
def test_hostile_names_are_text(page: Page, tmp_path: Path) -> None:
    run = report_database.build(tmp_path / "run", llms=(HOSTILE, "strong"), prms=("prm_a",))
    write_site(run, tmp_path / "site")
    page.goto((tmp_path / "site" / "index.html").as_uri())
    cells = page.locator("#calibration tbody tr").first.locator("td")
    assert HOSTILE in cells.all_inner_texts()
    page.locator("#calibration [data-filter=llm]").select_option(HOSTILE)
    assert set(page.evaluate(SHOWN.format("calibration", "llm"))) == {HOSTILE}
    assert page.locator("img[src=x]").count() == 0


@pytest.mark.usefixtures("without_matplotlib")
def test_an_earlier_site_is_replaced_and_nothing_else(run_folder: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("years of work")
    with pytest.raises(StorageError, match="do not belong to a site, such as thesis"):
        write_site(run_folder, mine)
    assert [path.name for path in mine.iterdir()] == ["thesis.tex"]
    files = write_site(run_folder, tmp_path / "site")
    assert write_site(run_folder, tmp_path / "site") == files
    with pytest.raises(RunError, match="No grid was run"):
        write_site(tmp_path / "nothing", tmp_path / "other")


@pytest.mark.usefixtures("without_matplotlib")
def test_without_matplotlib_there_are_no_figures(run_folder: Path, tmp_path: Path) -> None:
    files = write_site(run_folder, tmp_path / "site")
    assert [file.name for file in files] == ["calibration.csv", "index.html", "scaling.csv", "site.json"]
