"""Every page and view, light and dark, checked by axe-core: contrast, labels, order of headings, and more."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.conftest import SECONDS, drawn
from tools.screenshots import VIEWS

pytest.importorskip("playwright.sync_api", reason="the package 'playwright' is not installed")
pytest.importorskip("axe_playwright_python.base", reason="'axe-playwright-python' is not installed")
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

# Violations that belong to Streamlit: the rule, a selector of the element, and why it stays.
EXCEPTIONS = {
    # WCAG exempts the labels of disabled widgets. Axe does not see that this label belongs to a disabled select.
    ("color-contrast", ".stSelectbox:has([disabled], [aria-disabled=true]) *"),
    # Streamlit gives the box that scrolls a wide table no tabindex. Browsers let the keyboard scroll it all the same.
    ("scrollable-region-focusable", "[data-testid=stTable] > div, [data-testid=stTable]"),
    # The same holds for a cell with a formula.
    ("scrollable-region-focusable", "[data-testid=stTable] [data-testid=stMarkdownContainer]"),
}
RULES: dict[str, dict[str, Any]] = {
    "light": {},
    "dark": {"runOnly": ["color-contrast"]},
}  # only colours differ
_BACKGROUND = "getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor"


def violations(page: Page, rules: dict[str, Any]) -> list[str]:
    if page.evaluate("typeof axe === 'undefined'"):
        page.evaluate(AXE_SCRIPT)
    found = page.evaluate("rules => axe.run({resultTypes: ['violations'], ...rules})", rules)
    return [
        f"{violation['id']}: {node['html'][:200]} ({node['failureSummary']})"
        for violation in found["violations"]
        for node in violation["nodes"]
        if not any(
            rule == violation["id"] and page.locator(node["target"][-1]).first.evaluate(f"e => e.matches('{selector}')")
            for rule, selector in EXCEPTIONS
        )
    ]


# These have the elements of other views, with other numbers.
REPETITIONS = {"compare-scaling", "scaling-equal-cost"}


@pytest.mark.parametrize("name", [each for each in VIEWS if each not in REPETITIONS])
def test_axe_finds_nothing_in_light_and_dark(page: Page, address: str, name: str) -> None:
    check(page, f"{address}/{VIEWS[name]}")


def check(page: Page, address: str) -> None:
    """Run axe on a page, first light and then dark."""
    page.emulate_media(color_scheme="light")
    page.goto(address)
    page.get_by_role("heading", level=1).first.wait_for()
    found = {}
    for scheme in ("light", "dark"):
        before = page.evaluate(_BACKGROUND)
        page.emulate_media(color_scheme=scheme)
        if scheme == "dark":
            page.wait_for_function(f"before => {_BACKGROUND} !== before", arg=before, timeout=1000 * SECONDS)
        drawn(page)
        found[scheme] = violations(page, RULES[scheme])
    assert found == {"light": [], "dark": []}
