"""Databases of earlier layouts: what a migration gives, and what stays when it fails."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import sqlalchemy as sa

from prmcal.db import catalog
from prmcal.db.connection import engine_for
from prmcal.db.migrations import files
from prmcal.db.migrations.files import migrate_file
from prmcal.db.reader import reading
from prmcal.db.run_folder import database_path, published_path
from prmcal.db.tables import Cell, Job
from prmcal.db.tables.base import SCHEMA_VERSION
from prmcal.db.writer import Writer
from prmcal.errors import DatabaseStorageError, DatabaseVersionError

_LAYOUT_5 = Path(__file__).parent / "layout_5.sql"
_SCHEMA = (
    "SELECT table_name, column_name, column_index, data_type, is_nullable, column_default, comment "
    "FROM duckdb_columns() WHERE NOT internal",
    "SELECT table_name, constraint_type, constraint_text FROM duckdb_constraints()",
    "SELECT table_name, comment FROM duckdb_tables() WHERE NOT internal",
    "SELECT version FROM schema_version",
)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A run's folder whose databases have layout 5."""
    with engine_for(published_path(tmp_path)).begin() as connection:
        connection.exec_driver_sql(_LAYOUT_5.read_text())
    shutil.copyfile(published_path(tmp_path), database_path(tmp_path))
    return tmp_path


def schema(path: Path) -> list[list[str]]:
    with engine_for(path, read_only=True).connect() as connection:
        return [sorted(map(repr, connection.exec_driver_sql(query))) for query in _SCHEMA]


def rows(path: Path, columns: dict[str, list[str]]) -> dict[str, list[str]]:
    with engine_for(path, read_only=True).connect() as connection:
        return {
            table: sorted(
                map(repr, connection.execute(sa.select(*map(sa.column, names)).select_from(sa.table(table))))
            )
            for table, names in columns.items()
        }


def columns_of(path: Path) -> dict[str, list[str]]:
    query = (
        "SELECT table_name, list(column_name) FROM duckdb_columns() WHERE NOT internal GROUP BY table_name"
    )
    with engine_for(path, read_only=True).connect() as connection:
        return {
            name: columns for name, columns in connection.exec_driver_sql(query) if name != "schema_version"
        }


def test_a_migrated_file_has_the_tables_that_the_models_declare_and_all_of_its_rows(old: Path) -> None:
    new = Writer(database_path(old / "new"))
    columns = columns_of(published_path(old))
    before = rows(published_path(old), columns)
    assert all(before.values())
    Writer(database_path(old)).publish()
    assert schema(published_path(old)) == schema(new.path)
    assert rows(published_path(old), columns) == before
    assert list(catalog.cells(published_path(old))["variant"]) == ["", ""]
    assert sorted(path.name for path in old.glob("*.*")) == ["leaderboard.duckdb", "results.duckdb"]


def test_a_migrated_file_takes_what_the_old_one_refused(old: Path) -> None:
    writer = Writer(database_path(old))
    writer.record([Job(job_key="new", kind="fit", parameters={}, status="done")])
    assert "new" in set(catalog.jobs(writer.path)["job_key"])
    with writer.transaction() as transaction, pytest.raises(sa.exc.IntegrityError):
        transaction.record([Cell(cell_id="x", leaderboard="none", llm="a", dataset="b", status="done")])


def test_reading_an_earlier_layout_leaves_the_folder_as_it_is(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = published_path(old)
    database_path(old).unlink()
    before = path.read_bytes()
    path.chmod(0o444)
    old.chmod(0o555)
    assert len(catalog.cells(path)) == 2
    # The copy is made once for each state of the file.
    monkeypatch.setattr(files, "migrate", None)
    assert catalog.leaderboard(path, "calibration")["status"].tolist() == ["done", "failed"]
    assert path.read_bytes() == before
    assert [each.name for each in old.iterdir()] == [path.name]


def test_a_crash_in_the_middle_of_a_migration_leaves_the_old_file(old: Path) -> None:
    path = database_path(old)
    before = path.read_bytes()
    code = """
        import os, signal, sys
        from pathlib import Path
        from prmcal.db.migrations import layout_6
        from prmcal.db.migrations.files import migrate_file
        layout_6._create_tables = lambda op: os.kill(os.getpid(), signal.SIGKILL)
        migrate_file(Path(sys.argv[1]))
    """
    process = subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(path)], check=False)
    assert process.returncode == -signal.SIGKILL
    assert path.read_bytes() == before
    assert migrate_file(path) == 5
    with reading(path) as connection:
        assert connection.exec_driver_sql("SELECT version FROM schema_version").scalar() == SCHEMA_VERSION
    assert not list(old.glob(".*"))


def test_a_migration_that_fails_leaves_the_old_file(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = database_path(old)
    before = path.read_bytes()
    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(DatabaseStorageError, match="cannot be migrated: No space left on device"):
        migrate_file(path)
    with pytest.raises(DatabaseStorageError, match=r"temporary copy cannot be written.*Set TMPDIR"):
        catalog.jobs(published_path(old))
    assert path.read_bytes() == before


def test_layouts_that_are_newer_or_too_old_are_refused_and_left_alone(old: Path) -> None:
    for version, advice in ((99, "newer version of prmcal.*Upgrade"), (4, "older version.*prmcal rebuild")):
        for path in (database_path(old), published_path(old)):
            with engine_for(path).begin() as connection:
                connection.exec_driver_sql(f"UPDATE schema_version SET version = {version}")
        before = database_path(old).read_bytes()
        with pytest.raises(DatabaseVersionError, match=advice):
            Writer(database_path(old))
        with pytest.raises(DatabaseVersionError, match=advice):
            catalog.jobs(published_path(old))
        assert database_path(old).read_bytes() == before
