"""A PostgreSQL server for the tests, with the programs of the distribution's package."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
import sqlalchemy as sa

from prmcal.db.postgresql.address import address_of

PASSWORD = "s3cret/word"


def _programs() -> Path | None:
    installed = shutil.which("initdb")
    found = [Path(installed)] if installed else sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


@pytest.fixture(scope="session")
def server() -> Iterator[Path]:
    """The folder of the socket of a server, whose user `postgres` needs no password and whose user `reader` does."""
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    # The path of a socket has at most 107 characters, and the server refuses to run as root.
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    drop = []
    if os.getuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
        drop = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    data, log = folder / "data", folder / "log"

    def call(program: str, *arguments: str) -> None:
        subprocess.run(
            [*drop, programs / program, "-D", data, *arguments], check=True, stdout=subprocess.DEVNULL
        )

    call("initdb", "--no-sync", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8")
    (data / "pg_hba.conf").write_text("local all reader scram-sha-256\nlocal all all trust\n")
    settings = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
    call("pg_ctl", "--wait", f"--log={log}", "-o", settings, "start")
    folder.chmod(0o755)
    yield folder
    call("pg_ctl", "--wait", "--mode=immediate", "stop")
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def new_database(server: Path) -> Callable[[], sa.URL]:
    """Make an empty database and return its address."""
    numbers = count()
    # Other than the bytes: upper-case letters come after lower-case ones of the same kind.
    create = "CREATE DATABASE {} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'"

    def make() -> sa.URL:
        name = f"leaderboard{next(numbers)}"
        administrator = sa.create_engine(_address(server, "postgres"), isolation_level="AUTOCOMMIT")
        with administrator.connect() as connection:
            connection.exec_driver_sql(create.format(name))
        administrator.dispose()
        return _address(server, name)

    return make


def _address(server: Path, database: str) -> sa.URL:
    return address_of(f"postgresql://postgres@/{database}?host={server}")
