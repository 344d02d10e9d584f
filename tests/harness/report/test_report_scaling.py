"""The report's tables and figures of inference agree with the leaderboard and the curves."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import yaml

from prmcal.db import catalog
from prmcal.harness.report import write_report
from prmcal.harness.report.evidence import read_evidence, wanted
from prmcal.harness.report.exhibits import Chart
from prmcal.harness.report.figures import figure_4, figures_7_and_8
from tests.conftest import PLUGINS, Prmcal

WIDE = {"width": 2, "expansions": 2}


def made(prmcal: Prmcal, folder: Path, **changes: object) -> Path:
    """The folder of a finished run."""
    data = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text())
    data |= {
        "llms": data["llms"][:1],
        "calibrators": ["uncalibrated", "spread"],
        "datasets": [{"name": "synthetic-questions", "questions": 20}],
        "scaling": {"samples": 16, "targets": [0.9, 0.99], "levels": [0.1, 0.9]},
    }
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump(data | changes))
    done = prmcal("run", path, "--out", folder / "out", "--workers", 1, "--plugin", PLUGINS / "synthetic.py")
    assert done.returncode == 0, done.stderr
    return folder / "out"


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, prmcal: Prmcal) -> Path:
    names = ("beam search", "beam search + IAS-of-K", "beam search + IAS-of-M")
    strategies = [
        "pass@1",
        "best-of-n",
        "best-of-n + IAS",
        *({"name": name, "arguments": WIDE, "prms": ["verifier"]} for name in names),
    ]
    prms = [
        {"name": "verifier", "plugin": "synthetic-prm"},
        {"name": "doubter", "plugin": "synthetic-prm", "arguments": {"skill": 0.5}},
    ]
    return made(prmcal, tmp_path_factory.mktemp("scaling"), strategies=strategies, prms=prms)


@pytest.fixture(scope="module")
def report(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "report"
    write_report(run, folder)
    return folder


@pytest.mark.parametrize(
    ("table", "fixed", "adaptive"),
    [
        ("table-2", ["pass@1", "best-of-n"], ["best-of-n + IAS"]),
        ("table-3", ["pass@1", "beam search"], ["beam search + IAS-of-K", "beam search + IAS-of-M"]),
    ],
)
def test_tables_2_and_3_are_the_leaderboard(
    run: Path, report: Path, table: str, fixed: list[str], adaptive: list[str]
) -> None:
    rows = catalog.leaderboard(run / "leaderboard.duckdb", "scaling")
    rows = rows[rows["target"].isna() | (rows["target"] == 0.99)]
    rows = rows[rows["level"].isna() | (rows["level"] != 0.9)]  # a point estimate has 0.5, the other 0.1
    rows = rows[rows["prm"].isna() | (rows["prm"] == "verifier")]
    expected = [
        rows[(rows["strategy"] == name) & (rows["calibrator"].isna() | (rows["calibrator"] == each))].iloc[0]
        for names, columns in ((fixed, ["-"]), (adaptive, ["uncalibrated", "spread"]))
        for name in names
        for each in columns
    ]
    lines = rows_of(report / f"{table}.csv")
    for metric in ("accuracy", "budget_ratio"):
        shown = [line for line in lines if line["metric"] == metric and line["prm"] == "verifier"]
        assert [line["strategy"] for line in shown] == [row["strategy"] for row in expected]
        for line, row in zip(shown, expected, strict=True):
            if row[metric] == row[metric]:
                assert float(line["value"]) == pytest.approx(row[metric], abs=1e-6)
                assert float(line["low"]) == pytest.approx(row[f"{metric}_low"], abs=1e-6)


def test_prms_without_a_search_are_not_in_the_table_of_searches(report: Path) -> None:
    assert {row["prm"] for row in rows_of(report / "table-2.csv")} == {"verifier", "doubter"}
    assert {row["prm"] for row in rows_of(report / "table-3.csv")} == {"verifier"}


def test_figure_4_has_the_target_of_the_tables_and_its_numbers_are_those_of_the_leaderboard(
    run: Path, report: Path
) -> None:
    rows = rows_of(report / "figure-4-numbers.csv")
    adaptive = [row for row in rows if row["strategy"] == "best-of-n + IAS"]
    assert {(row["calibrator"], row["target"], row["level"]) for row in adaptive} == {
        ("spread", "0.99", "0.1")
    }
    for difficulty in range(1, 6):
        expected = catalog.measurements(run / "leaderboard.duckdb", "scaling", question_level=difficulty)
        expected = expected[(expected["target"] == 0.99) & (expected["level"] == 0.1)]
        expected = expected[expected["strategy"] == "best-of-n + IAS"]
        here = [row for row in adaptive if row["question_level"] == str(difficulty)]
        assert len(here) == 2 * 2  # accuracy and samples for two PRMs
        for row in here:
            (found,) = expected[
                (expected["prm"] == row["prm"]) & (expected["metric"] == row["metric"])
            ].itertuples()
            shown = [float(row[name]) for name in ("value", "low", "high")]
            assert shown == pytest.approx([found.value, found.low, found.high], abs=1e-6)
            assert int(row["questions"]) == found.questions
    fixed = [row for row in rows if row["strategy"] == "n = 1"]
    assert len(fixed) == 2 * 5 and all(row["low"] and row["high"] for row in fixed)


def drawn(chart: Chart | None) -> list[dict[str, Any]]:
    """The rows of the data that the first picture of a figure shows."""
    assert chart is not None
    (rows,) = (rows for rows in chart.picture.to_dict()["datasets"].values() if len(rows) > 1)
    return list(rows)


def test_histograms_before_and_after_calibration_show_every_cell(run: Path) -> None:
    evidence = read_evidence(run / "leaderboard.duckdb")
    rows = drawn(figures_7_and_8(evidence))
    bars = [row for row in rows if row["kind"] == "bar"]
    assert {row["calibrator"] for row in bars} == {"uncalibrated", "spread"}
    assert len(bars) == len(evidence.histograms)
    for calibrator in ("uncalibrated", "spread"):
        shares = [row["share"] for row in bars if row["calibrator"] == calibrator]
        assert sum(shares) == pytest.approx(100 * len(wanted(evidence.places)))


def test_the_figures_are_in_the_report(report: Path) -> None:
    page = (report / "README.md").read_text()
    for name in ("figure-4", "figures-7-and-8"):
        assert (report / f"{name}.png").stat().st_size > 5000
        assert f"{name}.png" in page


def test_the_figures_show_every_point(run: Path) -> None:
    evidence = read_evidence(run / "leaderboard.duckdb")
    rows = drawn(figure_4(evidence))
    panel = {name: rows[0][name] for name in ("side", "head")}
    by_difficulty = [row for row in rows if panel.items() <= row.items()]
    stars = [row for row in by_difficulty if row["kind"] == "ias"]
    assert [row["question_level"] for row in stars] == [1, 2, 3, 4, 5]
    assert all(row["accuracy_low"] <= row["accuracy"] <= row["accuracy_high"] for row in stars)
    assert {row["series"] for row in by_difficulty if row["kind"] == "fixed"} == {"n = 1", "n = 4", "n = 16"}


def test_what_a_grid_does_not_have_is_not_shown(
    tmp_path: Path, prmcal: Prmcal, tmp_path_factory: pytest.TempPathFactory
) -> None:
    out = made(prmcal, tmp_path, strategies=["pass@1"], calibrators=["uncalibrated"])
    files = {path.name for path in write_report(out, tmp_path_factory.mktemp("few") / "report")}
    assert "table-1.csv" in files
    assert not files & {"table-2.csv", "table-3.csv"}
    assert not files & {"figure-4.png", "figures-7-and-8.png"}
