"""The pages and the site of a merged leaderboard, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from prmcal.db import catalog
from prmcal.db.run_folder import published_path
from prmcal.harness.site import write_site
from tests.dashboard.conftest import choose
from tests.db import merged_factory
from tests.db.merged_factory import ADA, CLEO, OUTDATED, OUTDATED_CELL

pytest.importorskip("playwright.sync_api", reason="the package 'playwright' is not installed")
from playwright.sync_api import BrowserContext, Page, expect


@pytest.fixture(scope="module")
def site(merged: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site") / "site"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("prmcal.harness.site.writer.can_draw", lambda: False)
        write_site([merged], out)
    return out


def test_rows_are_filtered_by_tier_on_every_page(page: Page, merged: Path, merged_address: str) -> None:
    verified = catalog.leaderboard(published_path(merged), tier="graded again")
    page.goto(f"{merged_address}/leaderboard")
    choose(page, "Verified", "at least graded again", "stSidebar")
    page.get_by_text(f"{len(verified)} of ").wait_for()
    expect(page).to_have_url(re.compile(r"tier=graded"))
    # The links of the sidebar follow the address a moment later.
    link_to_overview = page.get_by_role("link", name="Overview")
    expect(link_to_overview).to_have_attribute("href", re.compile(r"tier=graded"))
    link_to_overview.click()
    page.get_by_role("heading", name="Ranking").wait_for()
    expect(page.get_by_text(merged_factory.SEED_2)).to_have_count(0)


def test_a_row_that_is_not_current_says_why_and_who_verified_it(page: Page, site: Path) -> None:
    page.goto((site / "index.html").as_uri())
    row = page.locator(f"#calibration tr[data-cell='{OUTDATED_CELL}']")
    expect(row).to_contain_text(OUTDATED)
    expect(row).to_contain_text("not verified")
    page.locator("#calibration").get_by_role("searchbox").fill("scored again")
    expect(page.locator("#calibration tbody tr").first).to_contain_text("scored again by Grace, 2026-03-04")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_index_of_submissions_works_without_a_script_on_a_phone(
    chromium: Callable[..., BrowserContext], site: Path, scheme: Literal["light", "dark"]
) -> None:
    size = {"width": 390, "height": 800}
    context = chromium(viewport=size, java_script_enabled=False, color_scheme=scheme)
    page = context.new_page()
    page.goto((site / "index.html").as_uri())
    expect(page.locator("#submissions article")).to_have_count(3)
    page.get_by_text("scored again by Grace, 2026-03-04").first.wait_for()
    page.get_by_role("link", name=f"Rows and verifications of submission {ADA}").click()
    page.get_by_text("All values are what the artifacts give.").wait_for()
    page.locator("#calibration tbody tr").nth(3).wait_for()
    context.close()


def test_names_of_submitters_are_text_and_fit_a_phone(page: Page, site: Path) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    for name in ("index.html", f"submission-{CLEO}.html"):
        page.goto((site / name).as_uri())
        page.get_by_text("<script>alert(1)</script>").first.wait_for()
        expect(page.locator("img[src=x]")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in page.content()
    page.set_viewport_size({"width": 1280, "height": 1000})
