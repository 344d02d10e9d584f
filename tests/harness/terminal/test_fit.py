"""Text that fits the terminal, whatever it says: no line is wider than asked, and nothing important is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from prmcal.db.text.board import Column
from prmcal.harness.terminal import cut, fit, terminal_width, text_table, wrapped

TEXTS = st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from("aé漢字🙂\x1b[31m\n\t ")), max_size=60)
WIDTHS = st.integers(60, 160)
TABLES = st.integers(1, 7).flatmap(
    lambda columns: st.lists(st.lists(TEXTS, min_size=columns, max_size=columns), min_size=1, max_size=4)
)


def widest(text: str) -> int:
    return max(map(cell_len, text.split("\n")))


@given(text=TEXTS, width=WIDTHS)
def test_wrapped_and_cut_texts_fit(text: str, width: int) -> None:
    assert widest(wrapped(text, width, indent="    ", hanging="  ")) <= width
    assert widest(cut(text, width)) <= width
    assert "\x1b" not in wrapped(text, width) + cut(text, width)
    assert wrapped(text, width).replace("\n", "").replace(" ", "") == (
        "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text if each != "\n")
    ).replace(" ", "")


@given(rows=TABLES, width=WIDTHS, weights=st.lists(st.integers(0, 3), min_size=7, max_size=7))
def test_tables_fit(rows: list[list[str]], width: int, weights: list[int]) -> None:
    columns = [
        Column(f"title {place}", values, weight)
        for place, (values, weight) in enumerate(zip(zip(*rows, strict=True), weights, strict=False))
    ]
    fitted = fit(columns, width, {0: "heading " * 40})
    assert widest(fitted.text) <= width
    assert all(each.weight for each in fitted.hidden)
    assert widest(text_table([each.title for each in columns], rows, width)) <= width


def test_the_least_important_columns_are_left_out_and_the_rest_is_whole() -> None:
    columns = [
        Column("name", ("best-of-n + IAS",)),
        Column("accuracy", ("0.998 [0.964, 0.999]* a",), 1),
        Column("budget ratio", ("0.686 [0.607, 0.756]",), 2),
        Column("status", ("done",), 3),
    ]
    narrow = fit(columns, 60)
    assert [each.title for each in narrow.hidden] == ["budget ratio"]  # the last column is narrow enough to stay
    assert narrow.text.splitlines()[-1] == "best-of-n + IAS  0.998 [0.964, 0.999]* a  done"
    assert fit(columns, 80).hidden == ()


def test_columns_of_a_group_are_left_out_together() -> None:
    value = ("0.998 [0.964, 0.999]",)
    columns = [Column("metric", ("brier",)), *(Column(name, value, 1, group="cells") for name in "AB")]
    assert [each.title for each in fit(columns, 40).hidden] == ["A", "B"]


def test_names_are_cut_before_values() -> None:
    columns = [Column("name", ("n" * 50,)), Column("value", ("0.998 [0.964, 0.999]",), whole=True)]
    line = fit(columns, 60).text.splitlines()[-1]
    assert line.endswith("n…  0.998 [0.964, 0.999]")


@pytest.mark.parametrize(("variable", "width"), [("80", 80), ("120", 120), ("20", 60), ("", 100)])
def test_the_width_is_that_of_the_variable_or_of_a_pipe(
    monkeypatch: pytest.MonkeyPatch, variable: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", variable)
    monkeypatch.setattr("sys.__stdout__", None)  # no terminal
    assert terminal_width() == width
