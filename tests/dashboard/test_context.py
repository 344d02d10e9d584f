"""The context in a real browser: addresses say what is shown, on every page, and the history walks through them."""

from __future__ import annotations

import re
import time

import pytest

from prmcal.dashboard.controls.widgets import link
from prmcal.db.metrics import cell_id
from tests.dashboard.conftest import IDLE, SECONDS, drawn

pytest.importorskip("playwright.sync_api", reason="the package 'playwright' is not installed")
from playwright.sync_api import Page, expect

AIME = cell_id("calibration", "strong", "nano-aime", prm="qwen", calibrator="temperature")


def shown(page: Page) -> tuple[str, str]:
    """The title of the tab, and the text of the page without charts but with its choices."""
    drawn(page)
    text: str = page.evaluate(
        """() => ['stSidebarUserContent', 'stMain'].map(name => {
            const part = document.querySelector(`[data-testid=${name}]`);
            const values = [...part.querySelectorAll('input')].map(each => each.value);
            const charts = [...part.querySelectorAll('[data-testid=stVegaLiteChart]')].map(each => each.innerText);
            return charts.reduce((text, chart) => text.replace(chart, ''), part.innerText) + values.join(' ');
        }).join(' ')"""
    )
    return page.title(), re.sub(r"\s+", " ", text)


def assert_equal_pages(page: Page, other: Page) -> None:
    """Wait until two pages show the same."""
    end = time.monotonic() + SECONDS
    while (found := [shown(each) for each in (page, other)])[0] != found[1] and time.monotonic() < end:
        page.wait_for_timeout(300)
    assert found[0] == found[1], page.url


def go(page: Page, title: str) -> None:
    drawn(page)  # The links of the sidebar come with the rest of the page.
    page.get_by_test_id("stSidebar").get_by_role("link", name=title).click()
    page.wait_for_url(f"**/{title.lower()}*")
    page.wait_for_function(f"document.title.startsWith('{title} ')")


def choose(page: Page, select: str, option: str, place: str = "stMain") -> None:
    """Choose an option with a click, since a browser goes back only to what a person has done."""
    page.get_by_test_id(place).get_by_role("combobox", name=select).click()
    page.get_by_role("option", name=option, exact=True).click()


State = tuple[str, str, str]
"""A state of a page: its address, its title, and a text that tells it apart from others of the same page.

Streamlit moves the history once more for a page that the reader leaves before its script has begun.
"""


def check(page: Page, url: str, title: str, text: str) -> None:
    page.wait_for_url(url)
    expect(page).to_have_title(re.compile(f"{title}.* · prmcal$"))
    page.get_by_role("heading", level=1).wait_for()
    expect(page.get_by_test_id("stMain")).to_contain_text(text)
    page.locator(IDLE).wait_for()  # A page that still runs may change its address.


def see(page: Page, address_ends: str, title: str, text: str = "") -> State:
    page.wait_for_url(f"**/{address_ends}")
    check(page, page.url, title, text)
    return page.url, title, text


def walk_back(page: Page, seen: list[State], shared: State) -> None:
    """Go back through all states but the last, and one forward. A stranger who opens a shared address sees the same."""
    stranger = page.context.new_page()
    for state in reversed(seen[:-1]):
        page.go_back()
        check(page, *state)
        if state == shared:
            stranger.goto(state[0])
            check(stranger, *state)
            assert_equal_pages(page, stranger)
    page.go_forward()
    check(page, *seen[1])
    stranger.close()


def test_choices_follow_the_reader(page: Page, address: str) -> None:
    page.goto(f"{address}/leaderboard")
    see(page, "leaderboard", "Leaderboard", "nano-mathweak")
    page.get_by_role("combobox", name="LLM").click()
    page.get_by_role("option", name="strong", exact=True).click()
    page.keyboard.press("Escape")  # An open list hides the page from assistive technology.
    see(page, "leaderboard?llms=strong", "Leaderboard", "nano-mathnano-aime")
    go(page, "Calibration")
    see(page, "calibration?llms=strong", "Calibration", "Cell calibration/strong/qwen/isotonic/nano-math")
    choose(page, "Calibrator", "temperature")
    chosen = "calibration?llms=strong&calibrator=temperature"
    seen = [see(page, chosen, "Calibration", "Cell calibration/strong/qwen/temperature/nano-math")]
    go(page, "Compare")
    seen.append(see(page, "compare?llms=strong&calibrator=temperature", "Compare", "A is uncalibrated. Paired over"))
    walk_back(page, seen, shared=seen[0])


def test_addresses_that_a_page_makes_show_the_same_again(page: Page, address: str) -> None:
    page.goto(f"{address}/compare?llms=strong&calibrator=temperature")
    seen = [see(page, "compare?llms=strong&calibrator=temperature", "Compare", "A is uncalibrated. Paired over")]
    choose(page, "A", AIME)
    seen.append(see(page, "compare?llms=strong&calibrator=temperature&a=*", "Compare", "all pairs of cells (1)"))
    expect(page.get_by_role("combobox", name="A", exact=True)).to_have_value(AIME)
    go(page, "Trajectories")
    text = "Cell calibration/strong/qwen/temperature/nano-aime"
    seen.append(see(page, "trajectories?llms=strong&dataset=nano-aime&*", "Trajectories", text))
    go(page, "Runs")
    seen.append(see(page, "runs?llms=strong&dataset=nano-aime&*", "Runs"))
    walk_back(page, seen, shared=seen[2])


def test_comparison_starts_with_the_uncalibrated_and_the_best_cell(page: Page, address: str) -> None:
    page.goto(f"{address}/" + link("compare", llm="strong"))
    for name, calibrator in (("A", "uncalibrated"), ("B", "isotonic")):
        best = cell_id("calibration", "strong", "nano-math", prm="qwen", calibrator=calibrator)
        expect(page.get_by_role("combobox", name=name, exact=True)).to_have_value(best)
    scaling = cell_id("scaling", "weak", "nano-math", strategy="pass@1")
    page.goto(f"{address}/" + link("compare", a=scaling))
    expect(page.get_by_role("combobox", name="A", exact=True)).to_have_value(scaling)


def test_names_that_the_run_does_not_have_are_told_and_ignored(page: Page, address: str) -> None:
    for name, state in {
        "leaderboard": {"llms": "<b>nobody</b>", "sort": "size"},
        "calibration": {"llm": "<b>nobody</b>", "metric": "size"},
        "compare": {"a": "<b>nobody</b>"},
        "scaling": {"prm": "<b>nobody</b>", "C": "7"},
        "trajectories": {"cell": "<b>nobody</b>", "question": "q999"},
    }.items():
        page.goto(f"{address}/" + link(name, **state))
        page.get_by_role("heading", level=1).wait_for()
        page.get_by_test_id("stAlert").filter(has_text="<b>nobody</b>").first.wait_for()
        expect(page.get_by_test_id("stException")).to_have_count(0)
