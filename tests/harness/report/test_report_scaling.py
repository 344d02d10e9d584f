"""The report's tables and figures of inference agree with the leaderboard and the curves."""

from __future__ import annotations

import csv
import itertools
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from matplotlib.patches import StepPatch

from prmcal.db import catalog
from prmcal.harness.report import write_report
from prmcal.harness.report.contents.difficulty import figure_4
from prmcal.harness.report.contents.histograms import figures_7_and_8
from prmcal.harness.report.contents.scaling_figures import ablation_of_beta, ablation_of_target
from prmcal.harness.report.evidence.read import read_evidence
from prmcal.harness.report.evidence.values import Group
from prmcal.harness.report.exhibits.style import styled
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


def place(row: dict[str, str]) -> tuple[str, str, str]:
    return row["prm"], row["target"], row["level"]


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


def test_theorem_1_is_set_beside_what_was_measured(run: Path, report: Path) -> None:
    rows = rows_of(report / "theorem-1.csv")
    assert {row["calibrator"] for row in rows if row["metric"] == "promised"} == {"spread"}
    promised = {place(row): float(row["value"]) for row in rows if row["metric"] == "promised"}
    measured = {
        place(row): row for row in rows if row["metric"] == "pass_at_n" and row["calibrator"] == "spread"
    }
    assert set(promised) == set(measured) and len(promised) == 2 * 2 * 2  # PRMs, targets and levels
    leaderboard = catalog.leaderboard(run / "leaderboard.duckdb", "scaling")
    leaderboard = leaderboard[leaderboard["calibrator"] == "spread"]
    for (prm, target, level), row in measured.items():
        assert promised[prm, target, level] == pytest.approx(float(target) * (1 - float(level)))
        (found,) = leaderboard[
            (leaderboard["prm"] == prm)
            & (leaderboard["target"] == float(target))
            & (leaderboard["level"] == float(level))
            & (leaderboard["strategy"] == "best-of-n + IAS")
        ].itertuples()
        assert float(row["value"]) == pytest.approx(found.pass_at_n, abs=1e-6)
        above = sum(float(row[end]) >= promised[prm, target, level] for end in ("low", "high"))
        assert row["standing"] == ("not kept", "open", "kept")[above]
    text = (report / "theorem-1.md").read_text()
    for word in ("kept", "not kept", "open"):
        count = sum(row["standing"] == word for row in measured.values())
        assert text.count(f"({word})") == count
        assert re.search(rf"{word} in {count}\b", text)


def test_histograms_before_and_after_calibration_show_every_llm(run: Path) -> None:
    with styled():
        evidence = read_evidence(run / "leaderboard.duckdb")
        chart = figures_7_and_8(evidence)
    assert chart is not None and len(chart.pictures) == len(evidence.datasets)
    for group, errors in evidence.errors.items():
        assert evidence.histograms[group, "uncalibrated"] == errors.counts
    for picture, dataset in zip(chart.pictures, evidence.datasets, strict=True):
        for axes, (prm, calibrator) in zip(
            picture.axes,
            itertools.product(evidence.prms, ("uncalibrated", "spread")),
            strict=True,
        ):
            drawn = [
                patch.get_data()[0]
                for patch in axes.patches
                if isinstance(patch, StepPatch) and not patch.get_fill()
            ]
            expected = [evidence.histograms[Group(dataset, prm, llm), calibrator] for llm in evidence.llms]
            assert len(drawn) == len(expected)
            for shares, counts in zip(drawn, expected, strict=True):
                np.testing.assert_allclose(shares, 100 * np.array(counts) / sum(counts))


def test_the_figures_are_in_the_report(report: Path) -> None:
    page = (report / "README.md").read_text()
    for name in ("figure-4", "figures-7-and-8", "figure-ablation-c", "figure-ablation-beta"):
        assert (report / f"{name}.png").stat().st_size > 5000
        assert f"{name}.png" in page


def test_the_figures_show_every_point(run: Path) -> None:
    with styled():
        evidence = read_evidence(run / "leaderboard.duckdb")
        charts = [make(evidence) for make in (figure_4, ablation_of_target, ablation_of_beta)]
    by_difficulty, by_target, by_level = (
        [np.asarray(line.get_xdata()) for line in chart.pictures[0].axes[0].lines]
        for chart in charts
        if chart is not None
    )
    axes = charts[1].pictures[0].axes[0] if charts[1] else None
    assert axes and [label.get_text() for label in axes.get_xticklabels()] == ["1", "4", "16"]
    assert by_difficulty[0].tolist() == [1, 2, 3, 4, 5]
    lines = charts[0].pictures[0].axes[0].lines if charts[0] else []
    (stars,) = [line for line in lines if line.get_marker() == "*"]
    assert np.asarray(stars.get_xdata()).tolist() == [1, 2, 3, 4, 5]
    # A line of fixed n, then one of eight targets for each calibrator, or for each level.
    assert [len(budgets) for budgets in by_target] == [5, 8, 8]
    assert [len(budgets) for budgets in by_level] == [5, 8, 8, 8]
    largest = [budgets[-1] for budgets in by_level[1:]]
    assert largest == sorted(largest, reverse=True)  # a lower level asks for more


def test_what_a_grid_does_not_have_is_not_shown(
    tmp_path: Path, prmcal: Prmcal, tmp_path_factory: pytest.TempPathFactory
) -> None:
    out = made(prmcal, tmp_path, strategies=["pass@1"], calibrators=["uncalibrated"])
    files = {path.name for path in write_report(out, tmp_path_factory.mktemp("few") / "report")}
    assert "table-1.csv" in files
    assert not files & {"table-2.csv", "table-3.csv", "table-4.csv", "theorem-1.csv"}
    assert not files & {"figure-ablation-beta.png", "figure-4.png", "figures-7-and-8.png"}
