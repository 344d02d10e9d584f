"""The report of an audit in a real browser: on a phone and on a desk, on a light and on a dark page."""

from __future__ import annotations

from pathlib import Path

import pytest

from prmcal.harness.audit.audit import audit
from tests.conftest import ROOT

pytest.importorskip("playwright.sync_api", reason="the package 'playwright' is not installed")
from playwright.sync_api import Page

CUT_OFF = """[...document.querySelectorAll('.figures svg text')].filter(text => {
    const place = text.getBoundingClientRect();
    return place.width && (place.left < 0 || place.right > innerWidth);
}).map(text => text.textContent)"""


def test_it_fits_a_phone_and_a_desk_in_light_and_dark(page: Page, tmp_path: Path) -> None:
    audit(ROOT / "grids" / "scored.jsonl").save(tmp_path)
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto((tmp_path / "report.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(CUT_OFF) == []
    paper = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        style = "getComputedStyle(document.querySelector('.figures svg rect')).fill"
        assert page.evaluate(style) == page.evaluate("getComputedStyle(document.body).backgroundColor")
        paper.append(page.evaluate(style))
    assert paper[0] != paper[1]
