"""The pages of a merged leaderboard, in a real browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from prmcal.db import catalog
from prmcal.db.run_folder import published_path
from tests.dashboard.conftest import choose
from tests.db import merged_factory

pytest.importorskip("playwright.sync_api", reason="the package 'playwright' is not installed")
from playwright.sync_api import Page, expect


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
