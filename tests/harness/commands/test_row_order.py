"""The leaderboards do not depend on the order of rows in the database, which a merge changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from prmcal.db.reader import engine_for
from prmcal.db.run_folder import published_path
from prmcal.harness.cli.leaderboard import render_leaderboard

TABLES = ("overview", "calibration", "scaling", "league")


@pytest.fixture(scope="module")
def folder(small_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = Path(shutil.copytree(small_run, tmp_path_factory.mktemp("rows") / "run"))
    with engine_for(published_path(directory)).begin() as connection:
        for table in ("results", "question_results"):  # Sums of round numbers would not depend on the order.
            noise = f"(hash({table} :: VARCHAR) % 1000003) / 3e9"
            connection.exec_driver_sql(f"UPDATE {table} SET value = value + {noise}")
    return directory


def test_the_bytes_do_not_depend_on_the_order_of_rows(folder: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    with engine_for(published_path(other)).begin() as connection:
        query = "SELECT table_name FROM duckdb_tables() WHERE NOT internal"
        for (name,) in connection.exec_driver_sql(query).all():
            order = f"hash({name} :: VARCHAR)"
            connection.exec_driver_sql(f"CREATE TEMP TABLE shuffled AS SELECT * FROM {name} ORDER BY {order}")
            connection.exec_driver_sql(f"DELETE FROM {name}")
            connection.exec_driver_sql(f"INSERT INTO {name} SELECT * FROM shuffled")
            connection.exec_driver_sql("DROP TABLE shuffled")
    for table in TABLES:
        assert render_leaderboard(other, table, "csv") == render_leaderboard(folder, table, "csv"), table
