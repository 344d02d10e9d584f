"""The report's tables and figures of inference agree with the leaderboard and the curves."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import yaml

from prmcal.db.queries import catalog
from prmcal.harness.report import write_report
from prmcal.harness.report.contents.difficulty import figure_4
from prmcal.harness.report.contents.scaling_figures import ablation_of_beta, ablation_of_target
from prmcal.harness.report.evidence.read import read_evidence
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


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, prmcal: Prmcal) -> Path:
    names = ("beam search", "beam search + IAS-of-K", "beam search + IAS-of-M")
    strategies = [
        "pass@1",
        "best-of-n",
        "best-of-n + IAS",
        *({"name": name, "arguments": WIDE} for name in names),
    ]
    return made(prmcal, tmp_path_factory.mktemp("scaling"), strategies=strategies)


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
    expected = [
        rows[(rows["strategy"] == name) & (rows["calibrator"].isna() | (rows["calibrator"] == each))].iloc[0]
        for names, columns in ((fixed, ["-"]), (adaptive, ["uncalibrated", "spread"]))
        for name in names
        for each in columns
    ]
    with (report / f"{table}.csv").open() as file:
        lines = list(csv.DictReader(file))
    for metric in ("accuracy", "budget_ratio"):
        shown = [line for line in lines if line["metric"] == metric]
        assert len(shown) == len(expected)
        for line, row in zip(shown, expected, strict=True):
            if row[metric] == row[metric]:
                assert float(line["value"]) == pytest.approx(row[metric], abs=1e-6)
                assert float(line["low"]) == pytest.approx(row[f"{metric}_low"], abs=1e-6)


def test_the_figures_are_in_the_report(report: Path) -> None:
    page = (report / "README.md").read_text()
    for name in ("figure-4", "figure-ablation-c", "figure-ablation-beta"):
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
    assert by_difficulty[-1].tolist() == [1, 2, 3, 4, 5]
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
    assert not files & {"table-2.csv", "table-3.csv", "figure-ablation-beta.png"}
