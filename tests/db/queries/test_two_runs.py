"""Differences between two runs: paired where both measured the same questions, else by their intervals."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from prmcal.db.metrics import cell_id
from prmcal.db.queries.two_cells import compare_runs
from prmcal.db.reader import engine_for
from prmcal.db.run_folder import artifact_folder, database_path, published_path
from prmcal.db.writer import Writer
from tests.db import factory
from tests.db.parquet_files import replicates_file, results_file

WHERE = ("strong", "isotonic", "nano-math")
SHIFT = 0.3


def test_cells_are_paired_or_judged_by_their_intervals_and_missing_ones_are_listed(
    published: Path, results: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(results, other)
    llm, calibrator, dataset = WHERE
    values = {name: value + SHIFT for name, value in factory.metric_values(*WHERE).items()}
    artifact = artifact_folder(other, "calibration_metrics", "-".join(WHERE))
    results_file(artifact / "results.parquet", values)
    replicates_file(artifact / "replicates.parquet", values, calibrator)
    shutil.rmtree(artifact_folder(other, "calibration_metrics", "weak-temperature-nano-math"))
    writer = Writer(database_path(other))
    with engine_for(writer.path).begin() as connection:
        connection.exec_driver_sql(
            "UPDATE cells SET status = 'pending' WHERE cell_id LIKE '%isotonic/nano-aime'"
        )
    writer.publish()

    found = compare_runs(published, published_path(other))
    assert found.described.name == "brier_corrected"
    assert list(found.only_a["cell_id"]) == [
        cell_id("calibration", "weak", "nano-aime", prm="qwen", calibrator="isotonic")
    ]
    assert found.only_b.empty
    both = found.both.set_index("cell_id")
    changed = both.loc[cell_id("calibration", llm, dataset, prm="qwen", calibrator=calibrator)]
    assert changed["difference"] == pytest.approx(-SHIFT)
    assert changed["low"] < changed["difference"] < changed["high"] < 0
    assert changed["p"] < 0.001
    unpaired = both.loc[cell_id("calibration", "weak", "nano-math", prm="qwen", calibrator="temperature")]
    assert unpaired[["low", "p"]].isna().all()
    assert (both["p"].drop(changed.name).dropna() == 1).all()


def test_results_of_the_same_job_are_compared_under_the_names_of_the_first(
    published: Path, results: Path, tmp_path: Path
) -> None:
    board = tmp_path / "board"
    shutil.copytree(results, board)
    writer = Writer(database_path(board))
    renamed = "replace(cell_id, '/strong/', '/strong (seed 1)/')"
    with engine_for(writer.path).begin() as connection:
        of_cells = "SELECT table_name FROM duckdb_columns() WHERE column_name = 'cell_id' AND NOT internal"
        for (table,) in connection.exec_driver_sql(of_cells).all():
            connection.exec_driver_sql(f"UPDATE {table} SET cell_id = {renamed}")
        connection.exec_driver_sql("UPDATE cells SET llm = 'strong (seed 1)' WHERE llm = 'strong'")
    writer.publish()
    for first, other in ((published, published_path(board)), (published_path(board), published)):
        found = compare_runs(first, other)
        assert found.only_a.empty and found.only_b.empty
        assert (found.both["value_a"] == found.both["value_b"]).all()
        assert any("seed 1" in cell for cell in found.both["cell_id"]) == (first != published)
        assert found.both["p"].notna().all()
