"""``prmcal report``: what it says, that it says the same twice, and what it refuses."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from prmcal.db.catalog import measurements, signed_errors
from prmcal.db.metrics import cell_id
from prmcal.db.queries.leaderboard import reported
from prmcal.db.run_folder import published_path
from prmcal.db.text.formats import escape_latex, escape_markdown
from prmcal.errors import PrmcalError, RunError, StorageError
from prmcal.harness.report import write_report
from prmcal.harness.report.evidence import read_evidence, wanted
from prmcal.harness.report.figures import figure_2, figure_3
from tests.conftest import ROOT, Prmcal, environment
from tests.harness.merging import small_runs
from tests.harness.report.report_database import build
from tests.shared import made_once

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


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a real run of the synthetic grid, which tests of merging use too."""
    return made_once(tmp_path_factory, "whole", small_runs.run)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_readme_shows_every_file_and_says_which_run_it_is(report: Path) -> None:
    text = (report / "README.md").read_text()
    linked = set(re.findall(r"\]\(([^)]+)\)", text))
    assert linked | {"README.md", "report.json"} == set(content(report))
    assert (
        "a\\_grid" in text and "`run-1`" in text and "2026-01-02 03:04:05" in text and "torch 2.13.0" in text
    )


def test_the_same_database_gives_the_same_bytes(results: Path, report: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    program = (
        "from pathlib import Path; from prmcal.harness.report import write_report; "
        f"write_report(Path({str(results)!r}), Path({str(again)!r}))"
    )
    subprocess.run([sys.executable, "-c", program], env=environment(), check=True)
    assert content(again) == content(report)


def test_tables_have_every_value_of_the_leaderboard(results: Path, report: Path) -> None:
    expected = measurements(published_path(results)).dropna(subset="metric")
    rows = [*rows_of(report / "table-5.csv"), *rows_of(report / "other-metrics.csv")]
    found = pd.DataFrame([row for row in rows if row["value"]])
    keys = ["dataset", "prm", "llm", "calibrator", "metric"]
    both = expected.merge(found, on=keys, suffixes=("", "_report"))
    assert len(both) == len(expected) == len(found)
    for name in ("value", "low", "high"):
        np.testing.assert_allclose(both[f"{name}_report"].astype(float), both[name], atol=1e-6)
    assert both["standing_report"].tolist() == both["standing"].fillna("").tolist()
    assert both["questions_report"].astype(int).tolist() == both["questions"].tolist()


def test_the_best_and_ties_are_marked(tmp_path: Path) -> None:
    calibrators = ("uncalibrated", "temperature", "isotonic")  # each better than the one before
    out = tmp_path / "report"
    write_report(
        build(tmp_path / "run", llms=["a"], prms=["b"], datasets=["c"], calibrators=calibrators), out
    )
    text = (out / "table-5.md").read_text()
    assert r"| 0.300<br>\[0.280, 0.330\] | 0.150=<br>\[0.130, 0.180\] | 0.100\*<br>" in text
    cells = ("0.300", "0.150=", "0.100*")
    row = re.escape(" & ".join(cells)).replace(r"\ \&", r"\\prmcalbelow\{\{\[[^]]*\]\}\}\ \&")
    assert re.search(row, (out / "table-5.tex").read_text())
    # Table 1 sets the last calibrator beside none: of these two it is the best.
    assert re.search(r"& 0\.300\S* \S* & 0\.100\*", (out / "table-1.tex").read_text())


def test_calibrated_means_the_papers_method_and_is_never_chosen_by_its_error(tmp_path: Path) -> None:
    calibrators = ("uncalibrated", "quantile-lora", "isotonic")  # the last has the smallest error
    out = tmp_path / "report"
    write_report(build(tmp_path / "run", llms=["a"], prms=["b"], calibrators=calibrators), out)
    assert {row["calibrator"] for row in rows_of(out / "table-1.csv")} == {"uncalibrated", "quantile-lora"}


def test_the_papers_numbers_stand_beside_measured_ones_of_the_same_names(tmp_path: Path) -> None:
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
    # Of the smaller one, Table 1 of the paper has other numbers.
    here = of_paper[(of_paper["llm"] == llm) & (of_paper["dataset"] == dataset) & (of_paper["prm"] == large)]
    expected = {(row.prm, row.calibrator, row.metric): row.value for row in here.itertuples()}
    assert len(expected) == 2
    rows = rows_of(tmp_path / "report" / "table-1.csv")
    found = {
        (row["prm"], row["calibrator"], row["metric"]): float(row["published"])
        for row in rows
        if row["published"]
    }
    assert expected.items() <= found.items() and len(rows) == 30
    text = (tmp_path / "report" / "table-1.md").read_text()
    assert text.count("<br>paper ") == len(found) and "'paper' is the number that the paper reports" in text
    assert (tmp_path / "report" / "table-1.tex").read_text().count("paper 0.") == len(found)


def test_names_that_the_paper_does_not_have_get_no_number_of_it(report: Path) -> None:
    for path in report.glob("table-*.csv"):
        assert not any(row["published"] for row in rows_of(path))
    assert not any("paper reports" in path.read_text() for path in report.glob("table-*.md"))


def test_a_missing_value_has_a_footnote_with_its_reason(report: Path) -> None:
    missing = [row for row in rows_of(report / "table-1.csv") if not row["value"]]
    assert {row["reason"] for row in missing} == {f"Failed: {REASON}", "Pending: the run is not finished."}
    text = (report / "table-1.md").read_text()
    assert "\N{EN DASH} (1)" in text and "\N{EN DASH} (2)" in text
    assert f"(1) Failed: {escape_markdown(REASON)}" in text
    latex = (report / "table-1.tex").read_text().replace(r"\allowbreak{}", "")
    assert f"Failed: {escape_latex(REASON)}" in latex
    assert text.count("\N{EN DASH} (") == len(missing)


def test_markdown_tables_keep_their_columns_whatever_names_hold(report: Path) -> None:
    for path in report.glob("*.md"):
        tables = re.findall(r"(?:^\|.*\n)+", path.read_text(), flags=re.MULTILINE)
        assert tables
        for table in tables:
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_latex_tables_keep_their_columns_and_escape_names(report: Path) -> None:
    text = (report / "table-5.tex").read_text()
    tables = re.findall(r"\\begin\{longtable\}\{@\{\}([^\n]*)@\{\}\}\n(.*?)\\end", text, flags=re.DOTALL)
    assert tables
    for layout, table in tables:
        columns = sum(map(int, re.findall(r"\*\{(\d+)\}", layout)))
        for line in table.splitlines():
            if line.endswith((r"\\", r"\\*")) and not line.startswith(r"\caption"):
                spans = sum(int(span) - 1 for span in re.findall(r"\\multicolumn\{(\d+)\}", line))
                assert len(re.findall(r"(?<!\\)&", line)) + 1 + spans == columns, line
    assert r"strong\textbar{}2" in text and r"weak\_\allowbreak{}1" in text
    assert r"\caption{All calibrators (Brier)." in text  # A document numbers its tables itself.
    body = re.sub(r"\\[_%&#$]|^%.*$|^\\begin\{longtable.*$|#1|\\label\{.*\}", "", text, flags=re.MULTILINE)
    assert not re.search(r"[_%#$|<>]", body)
    for opening, closing in (("\\begin{", "\\end{"), ("{", "}")):
        assert text.count(opening) == text.count(closing)


def test_figure_2_has_the_histograms_and_means_of_the_database(synthetic: Path) -> None:
    evidence = read_evidence(published_path(synthetic))
    chart = figure_2(evidence)
    assert chart is not None
    (rows,) = (data for data in chart.picture.to_dict()["datasets"].values() if len(data) > 1)
    values = measurements(published_path(synthetic))
    for place in wanted(evidence.places).itertuples():
        here = [
            row
            for row in rows
            if row["side"] == place.llm and row["head"].replace("\n", "").endswith(place.dataset)
        ]
        name = cell_id("calibration", place.llm, place.dataset, prm=place.prm, calibrator="uncalibrated")
        counts = signed_errors(published_path(synthetic), name)["count"]
        drawn = [row["share"] for row in here if row["kind"] == "bar"]
        assert drawn == pytest.approx(list(100 * counts / counts.sum()))
        (row,) = values[(values["cell_id"] == name) & (values["metric"] == "signed_error")].to_dict("records")
        (mean,) = [each for each in here if each["kind"] == "mean"]
        assert mean["value"] == pytest.approx(row["value"])
        assert f"n = {row['rows']:,} / {row['questions']:,}" in mean["text"]


def test_figure_3_has_every_value_with_its_standing_and_says_what_is_missing(results: Path) -> None:
    chart = figure_3(read_evidence(published_path(results)))
    (rows,) = (data for data in chart.picture.to_dict()["datasets"].values() if len(data) > 1)
    assert len(rows) == 2 * 2 * 2 * 2
    missing = {row["text"] for row in rows if row["kind"] == "missing"}
    assert missing == {"failed (1)", "pending (2)"} or missing == {"failed (2)", "pending (1)"}
    found = measurements(published_path(results))
    brier = found[found["metric"] == "brier"]
    assert sorted(row["value"] for row in rows if row["kind"] == "value") == pytest.approx(
        sorted(brier["value"])
    )
    worse = [row for row in rows if row["standing"] == "significantly worse"]
    assert len(worse) == (brier["standing"] == "worse").sum()


@pytest.mark.parametrize(
    "shape",
    [
        {"calibrators": ["isotonic", "my_own|one"], "llms": ["a"], "prms": ["b"]},
        {"calibrators": ["isotonic"], "llms": ["a"], "prms": ["b"]},
        {"calibrators": ["uncalibrated"], "llms": ["$a$"], "prms": ["one"], "datasets": ["d"]},
        {"prms": [f"prm-{i}" for i in range(5)], "llms": ["a"]},
        {"datasets": [f"data-{i}" for i in range(8)], "llms": ["a"], "prms": ["b"]},
    ],
)
def test_grids_of_other_shapes(tmp_path: Path, shape: dict[str, Any]) -> None:
    out = tmp_path / "report"
    files = write_report(build(tmp_path / "run", **shape), out)
    assert {path.suffix for path in files} == {".md", ".csv", ".tex", ".png", ".pdf", ".svg", ".json"}
    assert (out / "figure-3.png").exists()
    calibrators = {row["calibrator"] for row in rows_of(out / "table-5.csv")}
    assert calibrators == set(shape.get("calibrators", ["uncalibrated", "isotonic"]))


def test_a_run_in_which_nothing_is_measured_yet(tmp_path: Path) -> None:
    names = [
        cell_id("calibration", "a", "d", prm="p", calibrator=calibrator)
        for calibrator in ("uncalibrated", "isotonic")
    ]
    run = build(tmp_path / "run", llms=["a"], prms=["p"], datasets=["d"], pending=names)
    write_report(run, tmp_path / "report")
    assert "Pending: the run is not finished." in (tmp_path / "report" / "table-1.md").read_text()


def test_an_earlier_report_is_replaced_as_a_whole(results: Path, report: Path, tmp_path: Path) -> None:
    out = tmp_path / "report"
    write_report(build(tmp_path / "other", prms=[f"prm-{i}" for i in range(5)], llms=["a"]), out)
    assert content(out) != content(report)
    write_report(results, out)
    assert content(out) == content(report)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "report"]


def test_a_folder_with_other_files_is_left_alone(results: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StorageError, match=r"do not belong to a report, such as notes\.txt"):
        write_report(results, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_report_to_which_something_was_added_is_left_alone(
    results: Path, report: Path, tmp_path: Path
) -> None:
    out = shutil.copytree(report, tmp_path / "report")
    (out / "notes.txt").write_text("mine")
    before = content(out)
    with pytest.raises(StorageError, match=r"notes\.txt"):
        write_report(results, out)
    assert content(out) == before


def test_a_crash_leaves_the_earlier_report(
    results: Path, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = shutil.copytree(report, tmp_path / "report")
    monkeypatch.setattr("prmcal.harness.report.writer.index", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_report(results, out)
    assert content(out) == content(report)
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_a_folder_that_cannot_be_made_is_named(results: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
        write_report(results, tmp_path / "file" / "report")
    with pytest.raises(StorageError, match="is a file"):
        write_report(results, tmp_path / "file")


def test_a_folder_without_a_run_says_what_to_run(tmp_path: Path, prmcal: Prmcal) -> None:
    with pytest.raises(RunError, match="prmcal run GRID --out"):
        write_report(tmp_path / "nothing", tmp_path / "report")
    refused = prmcal("report", tmp_path / "nothing", "--out", tmp_path / "report")
    assert refused.returncode == 2
    assert refused.stderr.startswith("prmcal: error: No grid was run in")
    assert len(refused.stderr.splitlines()) == 1


def test_without_altair_it_says_what_to_install(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prmcal.harness.report.writer.can_draw", lambda: False)
    with pytest.raises(PrmcalError, match=r"pip install '\.\[report\]'"):
        write_report(results, tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_the_command_writes_the_report_of_a_real_run(synthetic: Path, tmp_path: Path, prmcal: Prmcal) -> None:
    done = prmcal("report", synthetic, "--out", tmp_path / "report")
    assert done.returncode == 0, done.stderr
    assert "Start with" in done.stderr and (tmp_path / "report" / "README.md").is_file()
    assert str(ROOT) not in (tmp_path / "report" / "README.md").read_text()
