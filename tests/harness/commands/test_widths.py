"""What the commands print: it fits the terminal, says what is hidden, and cells have the same number everywhere."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from prmcal.db.overview.query import overview
from prmcal.db.queries.cells import numbered
from prmcal.errors import PrmcalError, RunError, UnknownCellError
from prmcal.harness.cli.cells import render_cell, render_comparison
from prmcal.harness.cli.leaderboard import TABLES, explained_text, overview_text, render_leaderboard
from prmcal.harness.cli.learning import render_plugins
from prmcal.harness.cli.pages import check_folder
from prmcal.harness.terminal import UNLIMITED
from tests.conftest import Prmcal

WIDTHS = (60, 100)
ISOTONIC = "calibration/weak/qwen/isotonic/nano-math"


@pytest.fixture(scope="module")
def out(small_run: Path) -> Path:
    """The folder of a small run. Not to be written to."""
    return small_run


def widest(text: str) -> int:
    return max(map(cell_len, text.splitlines()))


@pytest.mark.parametrize("table", TABLES[1:])
def test_leaderboards_fit(out: Path, table: str) -> None:
    whole = render_leaderboard(out, table, width=UNLIMITED)
    assert "Hidden at this width" not in whole
    for width in WIDTHS:
        text = render_leaderboard(out, table, width=width)
        assert widest(text.partition("\nNext:")[0]) <= width  # The commands below are not wrapped.
        assert "-0.000" not in text
        hidden = "Hidden at this width" in text
        assert not hidden or max(len(line) for line in whole.splitlines() if line.startswith("─")) > width


def test_the_overview_fits_and_comes_first(out: Path) -> None:
    assert render_leaderboard(out, width=80).startswith("The scores are ")
    found = overview(out / "leaderboard.duckdb")
    for text, width in itertools.product((overview_text, explained_text), WIDTHS):
        body = text(found, out, width).partition("\nNext:")[0]  # Commands are not broken: they are copied.
        assert widest(body) <= width
        assert "temperature" in body


def test_the_first_row_of_the_ranking_is_on_a_screen_of_24_lines(out: Path) -> None:
    lines = render_leaderboard(out, width=80).splitlines()
    first = overview(out / "leaderboard.duckdb").ranking[0].calibrator
    assert len(lines) <= 22
    assert next(place for place, line in enumerate(lines) if line.startswith("1") and first in line) < 12


@pytest.mark.parametrize("width", WIDTHS)
def test_cells_and_comparisons_fit(out: Path, width: int) -> None:
    assert widest(render_cell(out, "3", width)) <= width
    assert widest(render_comparison(out, "2", "3", width=width)) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_plugins_fit(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = render_plugins(None)
    assert widest(text) <= width
    assert re.search(r"^isotonic +Map the reward to a success rate", text, re.MULTILINE)


def test_hidden_columns_are_named_with_the_way_to_see_them(out: Path) -> None:
    text = " ".join(render_leaderboard(out, "calibration", width=60).split())
    assert "Hidden at this width: " in text
    assert "Signed error" in text and "--wide or --format csv" in text
    assert "Signed error" in render_leaderboard(out, "calibration", width=UNLIMITED)


def test_what_all_rows_share_is_said_once(out: Path) -> None:
    text = render_leaderboard(out, "calibration", filters={"dataset": ["nano-math"], "llm": ["weak"]}, width=80)
    assert text.startswith("In all rows: Data set nano-math, LLM weak, PRM qwen, done. The prefixes of a row\n")
    assert text.count("nano-math") == 1
    grouped = render_leaderboard(out, "calibration", width=80)
    assert grouped.count("nano-math, weak") == 1


def test_cells_have_one_number_everywhere(out: Path) -> None:
    published = out / "leaderboard.duckdb"
    number = numbered(published)[ISOTONIC]
    rows = json.loads(render_leaderboard(out, "calibration", "json"))
    assert {row["cell_id"]: row["number"] for row in rows}[ISOTONIC] == number
    line = next(each for each in render_leaderboard(out, "calibration").splitlines() if "isotonic" in each)
    assert line.startswith(f"#{number} ")
    assert render_cell(out, f"#{number}").startswith(f"#{number} {ISOTONIC}: done\n")
    compared = render_comparison(out, str(number), "2")
    assert compared.startswith(f"A  #{number} {ISOTONIC}\nB  #2 ")
    assert json.loads(render_comparison(out, str(number), "2", "json"))["a"]["cell_id"] == ISOTONIC


def test_wrong_names_are_refused_with_what_was_meant(out: Path) -> None:
    with pytest.raises(UnknownCellError, match=f"Did you mean #3 '{ISOTONIC}'"):
        render_cell(out, ISOTONIC.replace("isotonic", "isotonc"))
    for output_format in ("table", "csv"):
        with pytest.raises(PrmcalError, match=r"--llm: the grid has no llm 'waek'\. Did you mean 'weak'"):
            render_leaderboard(out, "calibration", output_format, filters={"llm": ["waek"]})
    with pytest.raises(PrmcalError, match="does not apply to the overview"):
        render_leaderboard(out, "overview", filters={"calibrator": ["isotonic"]})


def test_chosen_cells_are_exported(out: Path) -> None:
    head, *lines = render_leaderboard(out, "scaling", "csv", filters={"strategy": ["best-of-n"]}).splitlines()
    assert "accuracy_low" in head
    assert lines and all(",best-of-n," in line for line in lines)


def test_a_folder_without_a_run_is_refused(out: Path, tmp_path: Path) -> None:
    check_folder(out)
    check_folder(tmp_path)  # a run is about to fill it
    (tmp_path / "note.txt").touch()
    for folder, message in (
        (tmp_path, "holds files, but none of a run"),
        (tmp_path / "absent", "does not exist"),
        (tmp_path / "note.txt", "is a file"),
    ):
        with pytest.raises(RunError, match=message):
            check_folder(folder)


def test_the_help_is_in_order_and_fits(prmcal: Prmcal) -> None:
    shown = prmcal("-h")
    assert shown.returncode == 0
    assert widest(shown.stdout) <= 80
    expected = (
        "plan run status grade audit apply train-prm pools leaderboard show compare dashboard report merge export "
        "ask serve list new check doctor"
    )
    listed = re.findall(r"^  ([a-z][a-z-]*)  ", shown.stdout, re.MULTILINE)
    assert listed[: len(expected.split())] == expected.split()
    example = re.search(r"prmcal run (\w+)", shown.stdout)
    assert example and "nano" in prmcal("plan", "-h").stdout
    assert prmcal("plan", example[1]).returncode == 0
    alone = prmcal()
    assert (alone.returncode, alone.stdout) == (0, shown.stdout)
    assert prmcal("show", "-h").returncode == 0
    assert "0 done, 2 bad input, 3 cells failed (run, status)" in " ".join(shown.stdout.split())
