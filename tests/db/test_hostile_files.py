"""Files in the place of a database run no code, read no other files, and are named in one line."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from prmcal.db.reader import connect, engine_for, reading
from prmcal.db.run_folder import database_path, published_path
from prmcal.db.writer import Writer
from prmcal.errors import DamagedDatabaseError
from tests.conftest import Prmcal
from tests.db import parquet_files
from tests.stored import load

SECRET = "root-of-all"


def sqlite(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE schema_version (version INTEGER)")
    connection.close()


FOREIGN: dict[str, tuple[Callable[[Path], object], str]] = {
    "sqlite": (sqlite, r"is damaged \(it is no DuckDB database\)"),
    "text": (lambda path: path.write_text("a,b\n1,2\n" * 9), r"is damaged \(it is no DuckDB database\)"),
    "short": (lambda path: path.write_bytes(b"DU"), "is damaged"),
    "folder": (Path.mkdir, "is a folder, where the database belongs"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_is_no_database_is_named_and_not_opened(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))  # DuckDB would put extensions there.
    make, message = FOREIGN[kind]
    for path in (published_path(tmp_path), database_path(tmp_path)):
        make(path)
    with pytest.raises(DamagedDatabaseError, match=message) as read, reading(published_path(tmp_path)):
        pass
    with pytest.raises(DamagedDatabaseError, match=message):
        Writer(database_path(tmp_path))
    assert "\n" not in str(read.value)
    assert not (tmp_path / "home").exists()


def test_a_command_says_in_one_line_what_the_file_is(copied_run: Path, prmcal: Prmcal, tmp_path: Path) -> None:
    published_path(copied_run).unlink()
    sqlite(published_path(copied_run))
    told = prmcal("leaderboard", copied_run)
    assert told.returncode == 2
    assert "leaderboard.duckdb is damaged (it is no DuckDB database)." in " ".join(told.stderr.split())
    assert "Traceback" not in told.stderr


STATEMENTS = (
    "FROM read_text('{secret}')",
    "FROM read_csv('{secret}')",
    "FROM glob('{secret}')",
    "COPY (SELECT 1) TO '{folder}/copy.csv'",
    "ATTACH '{folder}/other.duckdb'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "FROM sqlite_scan('{secret}', 'a')",
)


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_no_connection_reaches_other_files_or_extensions(statement: str, read_only: bool, tmp_path: Path) -> None:
    """As the views and macros of a database of a stranger would."""
    (tmp_path / "other").mkdir()
    secret = tmp_path / "other" / "secret"
    secret.write_text(SECRET)
    path = database_path(tmp_path / "run")
    Writer(path)
    text = statement.format(secret=secret, folder=tmp_path / "other")
    engine = engine_for(path, read_only=read_only, reads=None if read_only else path.parent)
    with pytest.raises((sa.exc.DBAPIError, DamagedDatabaseError)) as refused:  # noqa: SIM117
        with connect(engine, path, 1.0) as connection:
            connection.exec_driver_sql(text).all()
    assert SECRET not in str(refused.value)
    assert [each.name for each in secret.parent.iterdir()] == ["secret"]


def test_a_view_in_a_table_s_place_reads_no_file(tmp_path: Path) -> None:
    import duckdb

    (tmp_path / "secret").write_text(SECRET)
    path = published_path(tmp_path / "run")
    path.parent.mkdir()
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE VIEW schema_version AS SELECT 1 AS version FROM read_text('{tmp_path}/secret')")
    with pytest.raises(DamagedDatabaseError, match=r"leaderboard\.duckdb is"), reading(path):
        pass


def test_artifacts_may_be_on_another_disk(tmp_path: Path) -> None:
    run, disk = tmp_path / "run", tmp_path / "disk"
    for each in (run, disk):
        each.mkdir()
    (run / "artifacts").symlink_to(disk)
    file = parquet_files.trajectory_file(run / "artifacts" / "t.parquet", range(1))
    assert load(Writer(database_path(run)), "trajectories", {"job": [file]}) == parquet_files.POOL
