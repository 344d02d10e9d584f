"""Several writers share a leaderboard in a server: all end with the union of what they have."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from prmcal.db.postgresql.connection import connect
from prmcal.db.postgresql.shared import SharedTransaction
from prmcal.db.reader import Database, frame, reading
from prmcal.db.run_folder import RECORD_FILE, published_path
from prmcal.db.tables import Base
from prmcal.errors import DamagedDatabaseError, DatabaseError, RunError
from prmcal.harness.merging.merge import merge
from prmcal.harness.merging.sharing import share
from tests.conftest import Prmcal, command
from tests.harness.merging import small_runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs with different parts of a grid."""
    root = tmp_path_factory.mktemp("runs")
    first = small_runs.run(root / "first", small_runs.PARTS["llm"])
    second = small_runs.Part(
        {**small_runs.PARTS["llm"].changes, **small_runs.PARTS["dataset"].changes, "seed": 4}
    )
    return [first, small_runs.run(root / "second", second)]


@pytest.fixture(scope="module")
def expected(runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The content of the union."""
    out = tmp_path_factory.mktemp("expected") / "out"
    merge(out, runs)
    return content(published_path(out))


def content(database: Database) -> dict[str, list[str]]:
    with reading(database) as connection:
        return {
            table.name: sorted(map(repr, frame(connection, sa.select(table)).itertuples(index=False)))
            for table in Base.metadata.sorted_tables
        }


def test_writers_one_after_the_other_end_with_the_union(
    prmcal: Prmcal,
    runs: list[Path],
    expected: dict[str, list[str]],
    new_database: Callable[[], sa.URL],
    tmp_path: Path,
) -> None:
    url = new_database()
    outs = [tmp_path / "ada", tmp_path / "bob"]
    for out, run in zip(outs, runs, strict=True):
        assert prmcal("merge", out, run, "--database", url).returncode == 0
    assert content(url) == content(published_path(outs[1])) == expected
    assert content(published_path(outs[0])) != expected
    told = prmcal("merge", outs[0], "--database", url)
    assert "nothing new to send" in told.stdout
    assert content(url) == content(published_path(outs[0])) == expected
    # A new folder gets all of it.
    share(tmp_path / "cleo", url, pytest.fail)
    assert content(published_path(tmp_path / "cleo")) == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ada", "bob", "cleo"]


def test_a_merge_that_was_killed_is_finished_before_it_is_sent(
    prmcal: Prmcal,
    runs: list[Path],
    expected: dict[str, list[str]],
    new_database: Callable[[], sa.URL],
    tmp_path: Path,
) -> None:
    out, url, early = tmp_path / "out", new_database(), tmp_path / "early.duckdb"
    merge(out, runs[:1])
    shutil.copyfile(published_path(out), early)
    merge(out, runs[1:])
    shutil.copyfile(early, published_path(out))  # The submission is there, and the database without it.
    assert prmcal("merge", out, "--database", url).returncode == 0
    assert content(url) == content(published_path(out)) == expected


def test_writers_at_the_same_time_end_with_the_union(
    runs: list[Path], expected: dict[str, list[str]], new_database: Callable[[], sa.URL], tmp_path: Path
) -> None:
    url = new_database()
    writers = [
        subprocess.Popen(
            command("merge", tmp_path / run.name, run, "--database", url), stdout=subprocess.PIPE
        )
        for run in runs
    ]
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    assert content(url) == expected


def test_what_fails_leaves_the_server_as_it_was(
    runs: list[Path], new_database: Callable[[], sa.URL], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_database()
    merge(tmp_path / "first", runs[:1])
    merge(tmp_path / "second", runs[1:])
    share(tmp_path / "first", url, pytest.fail)
    before = content(url)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(SharedTransaction, "replace_content", killed)
        with pytest.raises(KeyboardInterrupt):
            share(tmp_path / "second", url, pytest.fail)
    assert content(url) == before
    share(tmp_path / "second", url, pytest.fail)
    assert content(url) == content(published_path(tmp_path / "second")) != before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "UPDATE shared_files SET name = '../../climbs' WHERE name LIKE '%/plan.json'",
            "which is no part of",
        ),
        ("UPDATE shared_files SET content = 'x' WHERE name LIKE '%/plan.json'", "plan.json.* is damaged"),
    ],
)
def test_a_server_with_altered_files_is_refused(
    change: str, message: str, runs: list[Path], new_database: Callable[[], sa.URL], tmp_path: Path
) -> None:
    url = new_database()
    merge(tmp_path / "out", runs[:1])
    share(tmp_path / "out", url, pytest.fail)
    with connect(url) as connection, connection.begin():
        connection.execute(sa.text(change))
    with pytest.raises(DamagedDatabaseError, match=message):
        share(tmp_path / "new", url, pytest.fail)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("record", [True, False], ids=["whole", "without its record"])
def test_the_folder_of_a_run_is_not_shared(
    prmcal: Prmcal, runs: list[Path], new_database: Callable[[], sa.URL], tmp_path: Path, record: bool
) -> None:
    url, run = new_database(), tmp_path / "run"
    shutil.copytree(runs[0], run)
    if not record:
        (run / RECORD_FILE).unlink()
    told = prmcal("merge", run, "--database", url)
    message = " ".join(told.stderr.split())
    assert (told.returncode, told.stdout) == (2, "")
    if record:
        assert f"{run} is the folder of a run" in message
        assert f"prmcal merge OUT {run} --database ADDRESS" in message
    else:
        assert f"neither {run} nor" in message
    with connect(url) as connection:
        assert not sa.inspect(connection).get_table_names()


def test_a_folder_that_was_merged_and_not_sent_is_told(
    prmcal: Prmcal, runs: list[Path], new_database: Callable[[], sa.URL], tmp_path: Path
) -> None:
    out, url = tmp_path / "out", new_database()
    told = prmcal("merge", out, runs[0], "--database", url.set(database="absent"))
    message = " ".join(told.stderr.split())
    assert told.returncode == 2
    assert "Added 1 submission" in told.stdout
    assert f"The inputs were merged into {out}, but nothing was sent." in message
    assert "createdb absent" in message and "Nothing was changed" not in message
    assert f"prmcal merge {out} --database ADDRESS" in message
    assert prmcal("merge", out, "--database", url).returncode == 0
    assert content(url) == content(published_path(out))


def test_nothing_is_shared_without_results(new_database: Callable[[], sa.URL], tmp_path: Path) -> None:
    url = new_database()
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "out", tmp_path / "empty"):
        with pytest.raises(RunError, match=r"nothing to share: neither .*Say what to merge: prmcal merge"):
            share(out, url, pytest.fail)
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]
    with pytest.raises(DatabaseError, match="no results"):
        content(url)
