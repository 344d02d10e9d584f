"""What goes wrong with a server: one clear message each, and no password in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from prmcal.db import catalog
from prmcal.db.migrations import steps
from prmcal.db.postgresql.address import address_of
from prmcal.db.postgresql.connection import connect
from prmcal.db.postgresql.shared import writing
from prmcal.db.reader import reading
from prmcal.errors import (
    DamagedDatabaseError,
    DatabaseError,
    DatabaseVersionError,
    LockedDatabaseError,
    MissingDatabaseError,
)

PASSWORD = "s3cret"
_LAYOUT_5 = Path(__file__).parents[1] / "db" / "layout_5.sql"


def execute(url: sa.URL, *statements: str) -> None:
    with connect(url) as connection, connection.begin():
        for statement in statements:
            connection.connection.cursor().execute(statement)


@pytest.fixture
def url(new_database: Callable[[], sa.URL]) -> sa.URL:
    """A database without results."""
    return new_database()


@pytest.fixture
def filled(url: sa.URL) -> sa.URL:
    """A database with the tables of the current layout."""
    with writing(url, pytest.fail):
        pass
    return url


@pytest.fixture
def guest(filled: sa.URL) -> sa.URL:
    """The address of a user who needs a password and may only connect."""
    execute(filled, "DROP ROLE IF EXISTS reader", f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'")
    return filled.set(username="reader", password=PASSWORD)


def test_a_server_that_does_not_answer_is_named_without_the_password() -> None:
    nowhere = address_of(f"postgresql://me:{PASSWORD}@127.0.0.1:1/results")
    with pytest.raises(
        DatabaseError, match=r"me:\*\*\*@127\.0\.0\.1:1/results cannot be reached.*host and"
    ) as found:
        catalog.jobs(nowhere)
    assert PASSWORD not in str(found.value)
    assert found.value.__cause__ is None


def test_a_database_that_does_not_exist_says_how_to_create_it(url: sa.URL) -> None:
    with pytest.raises(MissingDatabaseError, match=r"does not exist.*createdb absent"):
        catalog.jobs(url.set(database="absent"))


def test_a_wrong_password_or_user_is_refused(guest: sa.URL) -> None:
    for each in (guest.set(password="wrong"), guest._replace(password=None), guest.set(username="unknown")):
        with pytest.raises(DatabaseError, match=r"refused the user or the password.*~/\.pgpass") as found:
            catalog.jobs(each)
        assert "wrong" not in str(found.value)


def test_a_user_without_rights_is_told_whom_to_ask(guest: sa.URL) -> None:
    with pytest.raises(DatabaseError, match=r"does not allow this.*Ask its owner for the right to read"):
        catalog.jobs(guest)
    execute(guest.set(username="postgres"), "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    assert catalog.jobs(guest).empty
    with (
        pytest.raises(DatabaseError, match="does not allow this"),
        writing(guest, pytest.fail) as transaction,
    ):
        transaction.store("a", "0", Path(__file__))
    execute(guest.set(username="postgres"), "DROP OWNED BY reader")


def test_an_empty_database_says_how_to_fill_it(url: sa.URL) -> None:
    with pytest.raises(MissingDatabaseError, match=r"no results in .* yet.*prmcal merge"):
        catalog.jobs(url)


def test_a_database_of_another_program_is_not_touched(url: sa.URL) -> None:
    execute(url, "CREATE TABLE mine (x INTEGER)")
    for use in (catalog.jobs, lambda each: writing(each, pytest.fail).__enter__()):
        with pytest.raises(DamagedDatabaseError, match="prmcal did not write"):
            use(url)


def test_a_newer_layout_is_refused_by_readers_and_writers(filled: sa.URL) -> None:
    execute(filled, "UPDATE schema_version SET version = 99")
    for use in (catalog.jobs, lambda each: writing(each, pytest.fail).__enter__()):
        with pytest.raises(DatabaseVersionError, match=r"newer version of prmcal.*Upgrade"):
            use(filled)


def test_an_earlier_layout_is_migrated_by_the_next_writer(
    url: sa.URL, filled: sa.URL, new_database: Callable[[], sa.URL]
) -> None:
    old = new_database()
    execute(old, *_LAYOUT_5.read_text().split(";\n"))
    with pytest.raises(DatabaseVersionError, match=r"older version of prmcal.*prmcal migrate"):
        catalog.cells(old)
    with writing(old, pytest.fail):
        pass
    assert list(catalog.cells(old)["variant"]) == ["", ""]
    columns = (
        "SELECT table_name, column_name, ordinal_position, data_type, is_nullable, column_default, "
        "col_description(quote_ident(table_name)::regclass, ordinal_position) "
        "FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2"
    )
    found = []
    for each in (old, filled):
        with reading(each) as connection:
            found.append(list(map(tuple, connection.exec_driver_sql(columns))))
    assert found[0] == found[1]


def test_a_migration_that_fails_changes_nothing(url: sa.URL, monkeypatch: pytest.MonkeyPatch) -> None:
    execute(url, *_LAYOUT_5.read_text().split(";\n"))
    whole = steps._steps()[6]

    def half(operations: object) -> None:
        whole(operations)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(steps, "_steps", lambda: {6: half})
    with pytest.raises(KeyboardInterrupt), writing(url, pytest.fail):
        pass
    with connect(url) as connection:
        assert not sa.inspect(connection).has_table("submissions")
        assert connection.exec_driver_sql("SELECT version FROM schema_version").scalar() == 5


def test_a_writer_says_for_whom_it_waits_and_gives_up(filled: sa.URL) -> None:
    told: list[str] = []
    with (
        writing(filled, pytest.fail),
        pytest.raises(LockedDatabaseError, match="still being written by another program"),
        writing(filled, told.append, patience=0.05),
    ):
        pass
    assert len(told) == 1
    assert "is being written by 'postgres' on the same machine since" in told[0]


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://me:{PASSWORD}@host:port/x",
        f"postgresql://me:a@{PASSWORD}@host/x",
        f"postgresql://me:a@b/{PASSWORD}@host/x",
        f"postgresql://me:a@b?{PASSWORD}@host/x",
        f"POSTGRESQL://me:{PASSWORD}@host/x",
        f"postgresql+psycopg://me:{PASSWORD}@host/x",
        f"mysql://me:{PASSWORD}@host/x",
        f"me:{PASSWORD}@host/x",
    ],
)
def test_an_address_that_cannot_be_read_is_not_repeated(text: str) -> None:
    with pytest.raises(DatabaseError, match="Its form is postgresql://USER@HOST/DATABASE") as found:
        address_of(text)
    assert PASSWORD not in str(found.value)
    assert found.value.__cause__ is None


def test_a_password_is_in_no_text_of_an_address() -> None:
    for text in (
        f"postgres://me:{PASSWORD}@host/x",
        f"postgresql://me@host/x?password={PASSWORD}&sslmode=require",
        f"postgresql://me@host/x?password={PASSWORD}0&password={PASSWORD}",
    ):
        url = address_of(text)
        assert url.password == PASSWORD
        assert PASSWORD not in f"{url} {url!r}"


def test_another_password_in_an_address_is_refused() -> None:
    with pytest.raises(DatabaseError, match=r"no sslpassword\. Put it into a service file") as found:
        address_of(f"postgresql://me@host/x?sslmode=require&sslpassword={PASSWORD}")
    assert PASSWORD not in str(found.value)


def test_an_at_sign_in_a_password_is_encoded() -> None:
    with pytest.raises(DatabaseError, match=r"more than one '@'\. Write %40"):
        address_of("postgresql://me:a@b@host/x")
    url = address_of("postgresql://me:a%40b@host/x")
    assert (url.password, url.host) == ("a@b", "host")


def test_a_missing_driver_is_told_with_how_to_install_it(filled: sa.URL) -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None; from prmcal.harness.cli import main; "
        f"sys.argv = ['prmcal', 'leaderboard', {filled.render_as_string(False)!r}]; main()"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "pip install 'prmcal[postgresql]'" in found.stderr
    assert "Traceback" not in found.stderr


def test_the_variables_of_the_server_take_the_place_of_an_address(filled: sa.URL, server: Path) -> None:
    variables = {"PGHOST": str(server), "PGUSER": "postgres", "PGDATABASE": str(filled.database)}
    found = subprocess.run(
        [
            sys.executable,
            "-m",
            "prmcal",
            "leaderboard",
            "postgresql://",
            "--table",
            "calibration",
            "--format",
            "csv",
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )
    assert (found.returncode, found.stderr) == (0, "")
