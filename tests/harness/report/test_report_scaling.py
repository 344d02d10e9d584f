"""The report's tables and figures of inference agree with the leaderboard and the curves."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import yaml

from prmcal.db import catalog
from prmcal.harness.report import write_report
from tests.conftest import PLUGINS, Prmcal
from tests.one_process import run_here

WIDE = {"width": 2, "expansions": 2}


def made(folder: Path, **changes: object) -> Path:
    """The folder of a finished run."""
    data = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text())
    data |= {
        "llms": data["llms"][:1],
        "calibrators": ["uncalibrated", "spread"],
        "calibration": {"name": "synthetic-questions", "questions": 10, "trajectories": 2, "follow_ups": 4},
        "measurement": {"measured": 2, "follow_ups": 4, "replicates": 100},
        "datasets": [{"name": "synthetic-questions", "questions": 10}],
        "scaling": {"samples": 16, "targets": [0.9, 0.99], "levels": [0.1, 0.9]},
    }
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump(data | changes))
    assert run_here(path, folder / "out").failed_cells == 0
    return folder / "out"


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    return made(tmp_path_factory.mktemp("scaling"), strategies=strategies, prms=prms)


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
    rows = rows_of(report / "figure-4.csv")
    assert (
        "C = 0.99 and beta = 0.1" in json.loads((report / "report.json").read_text())["exhibits"]["figure-4"]["caption"]
    )
    for difficulty in range(1, 6):
        expected = catalog.measurements(run / "leaderboard.duckdb", "scaling", question_level=difficulty)
        expected = expected[(expected["target"] == 0.99) & (expected["level"] == 0.1)]
        expected = expected[expected["strategy"] == "best-of-n + IAS"].set_index(["prm", "metric"])
        here = [row for row in rows if row["question_level"] == str(difficulty)]
        (adaptive,) = (row for row in here if row["series"] == "IAS" and row["prm"] == "doubter")
        found = expected.loc[("doubter", "accuracy")]
        shown = [float(adaptive[f"accuracy{end}"]) for end in ("", "_low", "_high")]
        assert shown == pytest.approx([found["value"], found["low"], found["high"]])
        assert float(adaptive["samples"]) == pytest.approx(expected.loc[("doubter", "samples"), "value"])
        assert {row["series"] for row in here} == {"n = 1", "n = 4", "n = 16", "IAS"}


@pytest.mark.parametrize(
    ("figure", "lines"),
    [("figure-15", {"uncalibrated", "spread"}), ("figure-16", {"beta = 0.1", "beta = 0.5", "beta = 0.9"})],
)
def test_the_ablations_have_the_points_of_the_curves(run: Path, report: Path, figure: str, lines: set[str]) -> None:
    rows = rows_of(report / f"{figure}.csv")
    assert {row["series"] for row in rows} == {*lines, "fixed n"}
    own = [row for row in rows if row["series"] != "fixed n"]
    assert len({row["target"] for row in own}) == 8
    points = catalog.curve_points(run / "leaderboard.duckdb")
    points = points[points["question_level"].isna() & points["calibrator"].notna()]
    known = {
        (each.prm, each.calibrator, f"{each.level:.10g}", f"{each.target:.10g}"): (
            each.samples,
            each.accuracy,
        )
        for each in points.itertuples()
    }
    for row in own:
        expected = known[row["prm"], row["calibrator"], row["level"], row["target"]]
        assert (float(row["samples"]), float(row["accuracy"])) == pytest.approx(expected)


def test_histograms_before_and_after_calibration_show_every_cell(run: Path, report: Path) -> None:
    rows = [row for row in rows_of(report / "figures-7-and-8.csv") if row["share"]]
    assert {row["calibrator"] for row in rows} == {"uncalibrated", "spread"}
    for calibrator in ("uncalibrated", "spread"):
        shares = [float(row["share"]) for row in rows if row["calibrator"] == calibrator]
        assert sum(shares) == pytest.approx(100 * 2)  # of two PRMs


def test_what_a_grid_does_not_have_is_not_shown(tmp_path: Path, prmcal: Prmcal) -> None:
    out = made(tmp_path, strategies=["pass@1"], calibrators=["uncalibrated"])
    done = prmcal("report", out, "--out", tmp_path / "report")
    assert done.returncode == 0 and "report.json" in done.stderr
    files = {path.stem for path in (tmp_path / "report").iterdir()}
    assert {"table-1", "table-5", "figure-2", "figure-3"} <= files
    assert not files & {"table-2", "table-3", "table-4", "figure-4", "figure-15", "figure-16"}
