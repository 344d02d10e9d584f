"""The report of an audit is one page with everything in it, and a notebook gets the same."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

import prmcal
from prmcal.harness.audit.audit import Audit, audit
from tests.conftest import ROOT
from tests.harness.audit import files

SECTIONS = ["verdict", "reading", "right", "repair", "choose", "limits", "use"]
TABLES = {
    "reliability": ["series", "score", "right", "right_low", "right_high", "prefixes"],
    "steps": ["part", "error", "error_low", "error_high"],
    "calibrators": ["calibrator", "cut", "cut_low", "cut_high"],
    "readings": [
        *("reading", "error", "error_low", "error_high", "brier", "brier_low", "brier_high", "calibrated"),
        *("calibrated_low", "calibrated_high", "cut", "cut_low", "cut_high", "auc", "auc_low", "auc_high"),
    ],
    "choices": [
        *("choice", "accuracy", "accuracy_low", "accuracy_high", "samples"),
        *("against", "against_low", "against_high"),
    ],
}
HOSTILE = "<img src=x onerror=alert(1)>\"'"


class Parts(HTMLParser):
    """The sections of a page, what it loads, and how many pictures are in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.sections: list[str] = []
        self.loaded: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = dict(attrs)
        self.tags.append(tag)
        if tag == "section":
            self.sections.append(own.get("id") or "")
        self.loaded += [own[name] or "" for name in ("src", "href", "data") if name in own]


@pytest.fixture(scope="module")
def shipped() -> Audit:
    return audit(ROOT / "grids" / "scored.jsonl")


def test_the_page_has_the_answer_and_loads_nothing(shipped: Audit, tmp_path: Path) -> None:
    shipped.save(tmp_path)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    parts = Parts(text)
    assert parts.sections == SECTIONS
    assert all(each.startswith("#") for each in parts.loaded)
    assert parts.tags.count("svg") == len(TABLES)
    assert "The scores are too high" in text[: text.index('id="reading"')]
    assert "200 questions" in text[text.index('id="reading"') : text.index('id="right"')]
    assert f"prmcal apply {tmp_path} FILE" in text
    for name in TABLES:
        svg = (tmp_path / f"{name}.svg").read_text(encoding="utf-8")
        assert "prefers-color-scheme: dark" in svg
    value = f"{shipped.choices.rows[0].accuracy.value:.3f}" if shipped.choices else ""
    assert value
    assert value in text


def test_tables_and_charts_are_those_of_the_page(shipped: Audit) -> None:
    assert {name: list(table) for name, table in shipped.tables.items()} == {
        **TABLES,
        "difficulty": [],
        "detection": [],
        "prmscore": [],
    }
    assert list(shipped.charts) == list(TABLES)
    shown = shipped._repr_html_()
    parts = Parts(shown)
    assert parts.sections == SECTIONS[:-1]
    assert parts.tags.count("svg") == len(TABLES)
    assert not {"html", "style", "script"} & set(parts.tags)
    reliability = shipped.tables["reliability"]
    assert set(reliability["series"]) == {"as they are", "calibrated"}
    per_series = reliability.groupby("series")["prefixes"].sum()
    assert (per_series == len(shipped.prefixes)).all()
    merged = reliability[reliability["series"] == "as they are"]
    mean = (merged["score"] * merged["prefixes"]).sum() / len(shipped.prefixes)
    assert mean == pytest.approx(shipped.prefixes["reward"].mean())
    assert ((reliability["right_low"] <= reliability["right"]) & (reliability["right"] <= 1)).all()


def test_a_table_in_memory_with_hostile_names_is_audited(tmp_path: Path) -> None:
    rows = [
        {"question": each["question"], "score": each["scores"][-1], "correct": each["right"]}
        | {"level": HOSTILE if place % 2 else "easy"}
        for place, each in enumerate(files.solutions()[:: files.SOLUTIONS])
    ]
    found = prmcal.audit(pd.DataFrame(rows))
    found.save(tmp_path)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert list(found.tables["difficulty"]) == ["part", "error", "error_low", "error_high"]
    assert list(found.tables["difficulty"]["part"]) == [HOSTILE, "easy"]
    assert HOSTILE not in text
    assert "img" not in Parts(text).tags
    assert "one solution each" in text
    assert "choose" not in Parts(text).sections
    assert not (tmp_path / "choices.svg").exists()


def test_without_the_packages_for_diagrams_the_numbers_are_there(
    shipped: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prmcal.harness.audit.audit.can_draw", lambda: False)
    shipped.save(tmp_path)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert not re.search("<svg", text)
    assert "pip install '.[report]'" in text.replace("&#39;", "'")
    assert not list(tmp_path.glob("*.svg"))
    assert "learned stopping" in text
