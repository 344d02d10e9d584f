"""A server that repeats its key in replies puts it nowhere: not on the screen, nor into files, tables or pages."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
import yaml

from prmcal.db.reader import engine_for
from prmcal.db.run_folder import database_path, published_path
from prmcal.harness.cli.app import ExitCode
from tests.conftest import PLUGINS, Prmcal
from tests.harness.executors.test_server_dies import grid, server

KEY = "sk-Very+Secret/Key_4711"
SYNTHETIC = PLUGINS / "synthetic.py"


def stored(database: Path) -> str:
    """All rows of all tables as text, since a database compresses its texts."""
    with engine_for(database, read_only=True).connect() as connection:
        names = [each for (each,) in connection.exec_driver_sql("SELECT table_name FROM duckdb_tables()")]
        return "".join(repr(connection.execute(sa.text(f"FROM {name}")).all()) for name in names)


def test_a_key_that_a_server_repeats_is_stored_and_shown_nowhere(
    prmcal: Prmcal, tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVER_KEY", KEY)
    path, out, site = grid(tmp_path, port), tmp_path / "out", tmp_path / "site"
    data = yaml.safe_load(path.read_text())
    (served,) = data["llms"]
    served["arguments"]["key_variable"] = "SERVER_KEY"
    refused = served | {"name": "refused", "arguments": served["arguments"] | {"model": "refused"}}
    path.write_text(yaml.safe_dump(data | {"llms": [served, refused]}))
    with server(port):
        said = [
            prmcal("doctor", path, "--plugin", SYNTHETIC),
            prmcal("run", path, "--out", out, "--workers", 1, "--plugin", SYNTHETIC),
            prmcal("status", out),
            prmcal("export", out, "--html", site),
        ]
    assert said[1].returncode == ExitCode.FAILED_CELLS, said[1].stderr
    shown = "".join(each.stdout + each.stderr for each in said)
    files = {each: each.read_bytes() for folder in (out, site) for each in folder.rglob("*") if each.is_file()}
    texts = stored(database_path(out)) + stored(published_path(out))
    assert KEY not in shown + texts
    assert [each for each, content in files.items() if KEY.encode() in content] == []
    assert "[redacted]" in shown
    assert "[redacted]" in texts  # The replies were kept.
    assert b"[redacted]" in files[out / "run.log"] + files[out / "failures.json"]
