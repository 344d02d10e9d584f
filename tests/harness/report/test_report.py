"""``prmcal report``: what it says, that it says the same twice, and what it refuses."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from prmcal.db.catalog import error_histograms, measurements
from prmcal.db.metrics import cell_id
from prmcal.db.queries.leaderboard import reported
from prmcal.db.run_folder import published_path
from prmcal.db.text.formats import escape_latex
from prmcal.errors import PrmcalError, RunError, StorageError
from prmcal.harness.report import write_report
from tests.conftest import Prmcal, environment
from tests.forked import run_command
from tests.harness.report.report_database import build

FAILED = cell_id("calibration", "weak_1", "math", prm="prm_a", calibrator="isotonic")
PENDING = cell_id("calibration", "weak_1", "aime", prm="prm_a", calibrator="isotonic")
REASON = "loss | became NaN in $epoch_2$ 100% <b>"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a run with a failed and a pending cell. Not to be written to."""
    return build(tmp_path_factory.mktemp("run"), failed=[FAILED], pending=[PENDING], reason=REASON)


@pytest.fixture(scope="module")
def report(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report on it. Not to be written to."""
    out = tmp_path_factory.mktemp("reports") / "report"
    write_report(results, out)
    return out


@pytest.fixture
def only_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """No figures, which take most of the time."""
    monkeypatch.setattr("prmcal.harness.report.figures.figures", lambda _: [])


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_table_and_figure_has_its_files_and_its_caption(report: Path) -> None:
    about = json.loads((report / "report.json").read_text())
    assert (about["grid_name"], about["run_id"], about["packages"]) == (
        "a_grid",
        "run-1",
        {"torch": "2.13.0"},
    )
    assert about["started_at"] == "2026-01-02 03:04:05 UTC"
    assert all(words["title"] and words["caption"].endswith(".") for words in about["exhibits"].values())
    kinds: dict[str, set[str]] = {}
    for name in set(content(report)) - {"report.json"}:
        kinds.setdefault(Path(name).stem, set()).add(Path(name).suffix)
    assert set(kinds) == set(about["exhibits"])
    assert {frozenset(each) for each in kinds.values()} == {
        frozenset({".csv", ".tex"}),
        frozenset({".csv", ".png", ".pdf", ".svg"}),
    }


def test_the_same_database_gives_the_same_bytes(results: Path, report: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    program = (
        "from pathlib import Path; from prmcal.harness.report import write_report; "
        f"write_report(Path({str(results)!r}), Path({str(again)!r}))"
    )
    done = run_command([], environment(), tmp_path, program)  # Its hashes have another seed.
    assert done.returncode == 0, done.stderr
    assert content(again) == content(report)


def test_a_table_has_the_values_of_the_leaderboard(results: Path, report: Path) -> None:
    expected = measurements(published_path(results)).dropna(subset="metric")
    found = pd.DataFrame(rows_of(report / "table-5.csv"))
    expected = expected[expected["metric"].isin(set(found["metric"]))]
    found = found[found["value"] != ""]
    both = expected.merge(found, on=["dataset", "prm", "llm", "calibrator", "metric"], suffixes=("", "_report"))
    assert len(both) == len(expected) == len(found)
    for name in ("value", "low", "high"):
        np.testing.assert_allclose(both[f"{name}_report"].astype(float), both[name], atol=1e-9)
    assert both["standing_report"].tolist() == both["standing"].fillna("").tolist()
    assert both["questions_report"].astype(int).tolist() == both["questions"].tolist()


def test_a_missing_value_has_its_status_and_reason(report: Path) -> None:
    missing = [row for row in rows_of(report / "table-1.csv") if not row["value"]]
    assert {(row["status"], row["reason"]) for row in missing} == {("failed", REASON), ("pending", "")}
    text = (report / "table-1.tex").read_text()
    assert text.count("}failed\\") == text.count("}pending\\") == len(missing) // 2


def test_the_best_and_ties_are_marked_among_the_calibrators_of_a_table(tmp_path: Path, only_tables: None) -> None:
    calibrators = ("uncalibrated", "temperature", "isotonic")  # each better than the one before
    out = tmp_path / "report"
    write_report(build(tmp_path / "run", llms=["a"], prms=["b"], datasets=["c"], calibrators=calibrators), out)
    five, one = ((out / f"table-{number}.tex").read_text() for number in (5, 1))
    for value in ("0.300\\", "0.150=\\", "0.100*\\"):
        assert value in five
    assert "0.150" not in one and "0.300\\" in one and "0.100*\\" in one


def test_calibrated_means_the_papers_method_and_is_never_chosen_by_its_error(tmp_path: Path, only_tables: None) -> None:
    calibrators = ("uncalibrated", "quantile-lora", "isotonic")  # the last has the smallest error
    out = tmp_path / "report"
    write_report(build(tmp_path / "run", llms=["a"], prms=["b"], calibrators=calibrators), out)
    assert {row["calibrator"] for row in rows_of(out / "table-1.csv")} == {"uncalibrated", "quantile-lora"}


def test_the_papers_numbers_stand_beside_measured_ones_of_the_same_names(tmp_path: Path, only_tables: None) -> None:
    of_paper = reported(table="calibration_72b")
    small, large = of_paper["prm"].unique()
    llm, dataset = of_paper["llm"].iloc[0], of_paper["dataset"].iloc[0]
    run = build(
        tmp_path / "run",
        llms=[llm],
        prms=[small, large, "mine"],
        calibrators=["uncalibrated", "quantile-lora"],
        datasets=[dataset],
    )
    write_report(run, tmp_path / "report")
    # Table 4 has the numbers of the paper's Table 4, and Table 1 those of its Table 1 where it has both.
    here = of_paper[(of_paper["llm"] == llm) & (of_paper["dataset"] == dataset)]
    expected = {(row.prm, row.calibrator, row.metric): row.value for row in here.itertuples()}
    rows = rows_of(tmp_path / "report" / "table-4.csv")
    assert [row["prm"] for row in rows] == [small] * 4 + [large] * 4 + ["mine"] * 4
    found = {
        (row["prm"], row["calibrator"], row["metric"]): float(row["published"]) for row in rows if row["published"]
    }
    assert found == expected and len(found) == 6
    assert (tmp_path / "report" / "table-4.tex").read_text().count("{}paper 0.") == len(found)
    beside = rows_of(tmp_path / "report" / "beside-the-paper.csv")
    (row,) = (
        row for row in beside if row["Table"].startswith("PRMs") and row["PRM"] == large and row["Metric"] == "Brier"
    )
    measured = next(
        float(row["value"])
        for row in rows
        if (row["prm"], row["metric"], row["calibrator"]) == (large, "brier", "uncalibrated")
    )
    assert float(row["Mean"]) == pytest.approx(measured - expected[large, "uncalibrated", "brier"])


def test_names_that_the_paper_does_not_have_get_no_number_of_it(report: Path) -> None:
    for path in report.glob("table-*.csv"):
        assert not any(row["published"] for row in rows_of(path))
    assert not (report / "beside-the-paper.csv").exists()


def test_latex_escapes_names(report: Path) -> None:
    text = (report / "table-5.tex").read_text()
    assert escape_latex("strong|2") in text and escape_latex("weak_1") in text
    assert "strong|2" not in text and " weak_1" not in text


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_sets_the_tables(tmp_path: Path, only_tables: None) -> None:
    write_report(build(tmp_path / "run", llms=("[a] 100% & $b$", "~{c}^\\d")), tmp_path / "report")
    inputs = "".join(rf"\input{{{path.name}}}" for path in (tmp_path / "report").glob("*.tex"))
    document = tmp_path / "report" / "document.tex"
    document.write_text(
        rf"\documentclass{{article}}\usepackage[T1]{{fontenc}}\usepackage{{booktabs,longtable}}"
        rf"\begin{{document}}{inputs}\end{{document}}"
    )
    # A draft needs no fonts, only their widths.
    command = ["pdflatex", "-interaction=batchmode", "-halt-on-error", "-draftmode", document.name]
    done = subprocess.run(command, cwd=document.parent, check=False, capture_output=True, timeout=300)
    assert done.returncode == 0, document.with_suffix(".log").read_text(errors="replace")[-2000:]


def test_figure_2_has_the_histograms_of_the_database(results: Path, report: Path) -> None:
    rows = pd.DataFrame(rows_of(report / "figure-2.csv"))
    bars = error_histograms(published_path(results)).set_index("cell_id")["count"]
    for setting, here in rows.groupby(["dataset", "prm", "llm"]):
        dataset, prm, llm = map(str, setting)
        name = cell_id("calibration", llm, dataset, prm=prm, calibrator="uncalibrated")
        counts = bars[name]
        drawn = here.loc[here["share"] != "", "share"].astype(float)
        assert drawn.tolist() == pytest.approx(list(100 * counts / counts.sum()))
    assert len(rows.drop_duplicates(["dataset", "prm", "llm"])) == 8


@pytest.mark.parametrize(
    "shape",
    [
        {
            "datasets": [f"data-{i}" for i in range(8)],
            "llms": ["a"],
            "prms": ["b"],
            "calibrators": ["isotonic", "my_own|one"],
        },
        {
            "datasets": ["d"],
            "llms": ["$a$"],
            "prms": [f"prm-{i}" for i in range(5)],
            "calibrators": ["uncalibrated"],
        },
    ],
)
def test_grids_of_other_shapes(tmp_path: Path, shape: dict[str, Any]) -> None:
    out = tmp_path / "report"
    names = {path.name for path in write_report(build(tmp_path / "run", **shape), out)}
    assert "figure-3.png" in names
    assert ("figure-2.png" in names) == ("uncalibrated" in shape.get("calibrators", ["uncalibrated"]))
    assert ("table-4.tex" in names) == (len(shape.get("prms", "ab")) > 1)
    calibrators = {row["calibrator"] for row in rows_of(out / "table-5.csv")}
    assert calibrators == set(shape.get("calibrators", ["uncalibrated", "isotonic"]))


def test_a_run_in_which_nothing_is_measured_yet(tmp_path: Path) -> None:
    names = [
        cell_id("calibration", "a", "d", prm="p", calibrator=calibrator) for calibrator in ("uncalibrated", "isotonic")
    ]
    run = build(tmp_path / "run", llms=["a"], prms=["p"], datasets=["d"], pending=names)
    write_report(run, tmp_path / "report")
    assert {row["status"] for row in rows_of(tmp_path / "report" / "table-1.csv")} == {"pending"}


def test_an_earlier_report_is_replaced_as_a_whole(
    results: Path, report: Path, tmp_path: Path, only_tables: None
) -> None:
    out = Path(shutil.copytree(report, tmp_path / "report"))
    written = write_report(build(tmp_path / "other", llms=["a"], prms=["b"], datasets=["c"]), out)
    assert set(content(out)) == {path.name for path in written} < set(content(report))
    assert content(out).items().isdisjoint(content(report).items())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "report"]


def test_a_folder_with_other_files_is_left_alone(results: Path, report: Path, tmp_path: Path) -> None:
    out = shutil.copytree(report, tmp_path / "report")
    (out / "notes.txt").write_text("mine")
    before = content(out)
    with pytest.raises(StorageError, match=r"do not belong to a report, such as notes\.txt"):
        write_report(results, out)
    assert content(out) == before


def test_a_crash_leaves_the_earlier_report(
    results: Path, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = shutil.copytree(report, tmp_path / "report")
    monkeypatch.setattr("prmcal.db.charts.files_of", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_report(results, out)
    assert content(out) == content(report)
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_what_cannot_be_read_or_written_is_named(results: Path, tmp_path: Path, prmcal: Prmcal) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
        write_report(results, tmp_path / "file" / "report")
    with pytest.raises(StorageError, match="is a file"):
        write_report(results, tmp_path / "file")
    with pytest.raises(RunError, match="prmcal run GRID --out"):
        write_report(tmp_path / "nothing", tmp_path / "report")
    refused = prmcal("report", tmp_path / "nothing", "--out", tmp_path / "report")
    assert refused.returncode == 2
    assert refused.stderr.startswith("prmcal: error: No grid was run in")
    assert len(refused.stderr.splitlines()) == 1


def test_without_altair_it_says_what_to_install(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prmcal.harness.report.writer.can_draw", lambda: False)
    with pytest.raises(PrmcalError, match=r"pip install '\.\[report\]'"):
        write_report(results, tmp_path / "report")
    assert not (tmp_path / "report").exists()
