from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import sqlalchemy as sa

from prmcal.db import catalog
from prmcal.db.reader import engine_for, frame, reading
from prmcal.db.run_folder import database_path, published_path
from prmcal.db.tables import Base, JobRow, QuestionRow, TrajectoryRow
from prmcal.db.writer import Writer
from prmcal.errors import (
    DamagedDatabaseError,
    DatabaseStorageError,
    LoadError,
    LockedDatabaseError,
    MissingDatabaseError,
)
from tests.db import parquet_files
from tests.stored import load, publish, record


def run_python(code: str, *arguments: Path, **kwargs: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **kwargs)  # type: ignore[call-overload,no-any-return]


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(database_path(tmp_path))


def test_a_bulk_load_equals_inserts_row_by_row(writer: Writer, tmp_path: Path) -> None:
    path = parquet_files.trajectory_file(tmp_path / "x.parquet")
    load(writer, "trajectories", {"bulk": [path]})
    with engine_for(writer.path).begin() as connection:
        for row in parquet.read_table(path).to_pylist():
            connection.execute(sa.insert(TrajectoryRow).values(job_key="rows", **row))
    order = (TrajectoryRow.question_id, TrajectoryRow.trajectory)
    loaded, rows = (
        frame(writer.path, sa.select(TrajectoryRow).where(TrajectoryRow.job_key == key).order_by(*order)).drop(
            columns="job_key"
        )
        for key in ("bulk", "rows")
    )
    assert len(loaded) == parquet_files.QUESTIONS * parquet_files.POOL
    assert loaded.equals(rows)


def test_a_load_replaces_its_own_rows_only_and_ignores_the_order_of_files(writer: Writer, tmp_path: Path) -> None:
    files = [parquet_files.trajectory_file(tmp_path / f"{i}.parquet", range(i, i + 1)) for i in range(4)]
    stored = []
    for order in itertools.islice(itertools.permutations(files), 0, None, 7):
        load(writer, "trajectories", {"other": files[:1]})
        assert load(writer, "trajectories", {"mine": order}) == 4 * parquet_files.POOL
        with reading(writer.path) as connection:
            stored.append(connection.execute(sa.select(TrajectoryRow).where(TrajectoryRow.job_key == "mine")).all())
            others = connection.scalar(sa.select(sa.func.count()).where(TrajectoryRow.job_key == "other"))
        assert others == parquet_files.POOL
    assert all(each == stored[0] for each in stored)
    load(writer, "trajectories", {"mine": []})
    assert set(frame(writer.path, sa.select(TrajectoryRow.job_key))["job_key"]) == {"other"}


def test_many_owners_at_once_have_the_rows_of_one_load_each(
    writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [parquet_files.trajectory_file(tmp_path / f"{i}.parquet", range(i, i + 1)) for i in range(4)]
    given = {"b": files[2:], "a": files[:1], "without": [], "same": files[:1], "c": [files[3], files[1]]}
    for name, paths in given.items():
        load(writer, "trajectories", {name: paths})
    with reading(writer.path) as connection:
        expected = connection.execute(sa.select(TrajectoryRow)).all()
    for most in (500, 2):
        monkeypatch.setattr("prmcal.db.writer._MOST_FILES", most)
        many = Writer(database_path(tmp_path / str(most)), reads=tmp_path)
        assert load(many, "trajectories", given) == 6 * parquet_files.POOL
        with reading(many.path) as connection:
            assert connection.execute(sa.select(TrajectoryRow)).all() == expected


def test_record_replaces_by_primary_key(writer: Writer) -> None:
    big = 2**63 - 1
    record(writer, [JobRow(job_key="a", kind="score", parameters={"b": [1]}, samples=big, status="pending")])
    record(writer, [JobRow(job_key="a", kind="score", parameters={}, status="failed", reason="first")])
    record(
        writer, [JobRow(job_key="a", kind="score", parameters={}, samples=big, status="failed", reason=r) for r in "xy"]
    )
    found = catalog.jobs(writer.path)
    assert found[["job_key", "status", "reason", "samples", "shards"]].values.tolist() == [["a", "failed", "y", big, 0]]


def test_a_transaction_is_stored_as_a_whole_or_not_at_all(writer: Writer, tmp_path: Path) -> None:
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(parquet_files.trajectory_file(tmp_path / "whole.parquet").read_bytes()[:-20])
    with (
        pytest.raises(LoadError, match=r"broken\.parquet is not a complete Parquet file"),
        writer.transaction() as transaction,
    ):
        transaction.record([JobRow(job_key="a", kind="rollout", parameters={}, status="done")])
        transaction.load("trajectories", {"a": [broken]})
    assert catalog.jobs(writer.path).empty


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"question_id": ["q"]}, "NOT NULL"),
        ({"level": ["high"]}, "Conversion"),
        ({"colour": ["red"]}, "unknown column colour"),
        ({"bin": [2**40]}, "Conversion|unknown column bin"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(
    writer: Writer, tmp_path: Path, columns: dict[str, list[object]], message: str
) -> None:
    whole = {"question_id": ["q"], "trajectory": [0], "step": [0], "level": [0.5], "reward": [0.5]}
    table = columns if message == "NOT NULL" else {**whole, **columns}
    parquet.write_table(pa.table(table), tmp_path / "x.parquet")
    with pytest.raises(LoadError, match=message):
        load(writer, "calibrated_rewards", {"a": [tmp_path / "x.parquet"]})


def test_the_published_copy_keeps_descriptions_and_quotes_in_folder_names(tmp_path: Path) -> None:
    writer = Writer(database_path(tmp_path / 'it\'s "mine"'))
    publish(writer)
    with reading(writer.published) as connection:
        described = connection.exec_driver_sql(
            "SELECT count(*), count(comment) FROM duckdb_columns() "
            "WHERE table_name IN (SELECT table_name FROM duckdb_tables() WHERE NOT internal)"
        ).one()
    columns = sum(len(table.columns) for table in Base.metadata.sorted_tables)
    assert tuple(described) == (columns, columns)
    assert sorted(path.name for path in writer.path.parent.iterdir()) == ["leaderboard.duckdb", "results.duckdb"]


def test_killed_while_writing_it_keeps_whole_transactions_and_a_readable_copy(tmp_path: Path) -> None:
    code = """
        import sys
        from pathlib import Path
        from prmcal.db.run_folder import database_path
        from prmcal.db.tables import JobInput, JobRow
        from prmcal.db.writer import Writer
        writer = Writer(database_path(Path(sys.argv[1])))
        number = len(writer.stored().jobs)
        print("ready", flush=True)
        while True:
            number += 1
            with writer.transaction(publish=True) as transaction:
                transaction.record([JobRow(job_key=f"{number:06}", kind="fit", parameters={}, status="done")])
                transaction.record([JobInput(job_key=f"{number:06}", input_key=str(i)) for i in range(50)])
            print(number, flush=True)
    """
    for moment in (0.05, 0.3):
        process = run_python(code, tmp_path)
        assert process.stdout is not None
        written = [process.stdout.readline() for _ in range(3)]
        threading.Event().wait(moment)
        process.send_signal(signal.SIGKILL)
        written += process.communicate()[0].splitlines()
        last = max(int(line) for line in written if line.strip().isdigit())
        for path in (published_path(tmp_path), Writer(database_path(tmp_path)).path):
            jobs = catalog.jobs(path)
            with reading(path) as connection:
                inputs = connection.exec_driver_sql("SELECT count(*) FROM job_inputs").scalar_one()
            assert inputs == 50 * len(jobs)
            assert len(jobs) >= last
    publish(Writer(database_path(tmp_path)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["leaderboard.duckdb", "results.duckdb"]


@pytest.mark.parametrize("published", [True, False])
def test_a_file_that_a_killed_process_has_damaged_is_replaced(published: bool, tmp_path: Path) -> None:
    path = database_path(tmp_path)
    writer = Writer(path)
    record(writer, [JobRow(job_key="published", kind="fit", parameters={}, status="done")])
    if published:
        publish(writer)
    code = """
        import os, signal, sys
        from pathlib import Path
        from prmcal.db.reader import connect, engine_for
        with connect(engine_for(Path(sys.argv[1])), Path(sys.argv[1]), 0.0) as connection:
            connection.exec_driver_sql("UPDATE jobs SET reason = 'changed'")
            connection.commit()
            os.kill(os.getpid(), signal.SIGKILL)
    """
    process = run_python(code, path)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    log = path.with_name(f"{path.name}.wal")
    assert log.exists()
    damaged = bytearray(path.read_bytes())
    for place in range(3 * 4096 + 1000, len(damaged), 256 * 1024):  # DuckDB's headers, and then its blocks.
        damaged[place] ^= 0xFF
    path.write_bytes(damaged)
    assert Writer(path).stored().jobs == ({"published"} if published else set())
    assert not log.exists()
    # Without the log of a killed process, it is not known what has damaged the file.
    path.write_bytes(damaged)
    with pytest.raises(DamagedDatabaseError, match=rf"prmcal rebuild {tmp_path}"):
        Writer(path)


def test_a_reader_sees_whole_states_while_a_run_writes(writer: Writer) -> None:
    publish(writer)
    seen: list[tuple[int, int]] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            with reading(writer.published) as connection:
                jobs = connection.exec_driver_sql("SELECT count(*) FROM jobs").scalar_one()
                questions = connection.exec_driver_sql("SELECT count(*) FROM questions").scalar_one()
            seen.append((jobs, questions))

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(12):
        place = {"dataset": "d", "split": "test", "text": "", "answer": ""}
        record(
            writer,
            [
                JobRow(job_key=str(number), kind="fit", parameters={}, status="done"),
                *(QuestionRow(question_id=f"{number}-{i}", **place) for i in range(10)),
            ],
        )
        publish(writer)
    stop.set()
    for thread in threads:
        thread.join()
    assert all(questions == 10 * jobs for jobs, questions in seen)
    assert len({jobs for jobs, _ in seen}) > 2
    assert len(catalog.jobs(writer.published)) == 12


def test_another_program_that_holds_the_file_is_waited_for_then_named(writer: Writer) -> None:
    code = """
        import duckdb, sys
        connection = duckdb.connect(sys.argv[1])
        print("open", flush=True)
        sys.stdin.read()
    """
    process = run_python(code, writer.path, stdin=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        with pytest.raises(LockedDatabaseError, match=f"PID {process.pid}"):
            Writer(writer.path, patience=0.1)
    finally:
        process.communicate("")
    Writer(writer.path, patience=0.1)


def test_a_damaged_file_is_named_with_what_to_do(writer: Writer) -> None:
    publish(writer)
    for path in (writer.path, writer.published):
        whole = path.read_bytes()
        for damage in (
            b"not a database at all" * 400,
            whole[: len(whole) // 3],
            whole[:4096] + bytes(len(whole) - 4096),
        ):
            path.write_bytes(damage)
            with pytest.raises(DamagedDatabaseError, match=rf"{path.name} is damaged.*prmcal rebuild {path.parent}"):
                Writer(path) if path == writer.path else catalog.jobs(path)


def test_a_flipped_byte_is_found_by_the_query_that_reads_it(results: Path, tmp_path: Path) -> None:
    whole = published_path(results).read_bytes()
    path = published_path(tmp_path)
    for place in range(3 * 4096 + 1000, len(whole), 256 * 1024):  # DuckDB's headers, and then its blocks.
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        opened = False
        try:
            with reading(path):
                opened = True
            catalog.leaderboard(path, "calibration")
        except DamagedDatabaseError as error:
            assert f"{path.name} is damaged" in str(error)
            if opened:
                return
    pytest.fail("no query found a flipped byte")


def test_a_folder_in_the_place_of_a_database_is_named(tmp_path: Path) -> None:
    for path in (database_path(tmp_path), published_path(tmp_path)):
        path.mkdir()
        with pytest.raises(DamagedDatabaseError, match=rf"is a folder.*Remove or rename it.*prmcal rebuild {tmp_path}"):
            Writer(path) if path == database_path(tmp_path) else catalog.jobs(path)


def test_a_file_of_another_program_is_not_touched(tmp_path: Path) -> None:
    path = database_path(tmp_path)
    with engine_for(path).begin() as connection:
        connection.exec_driver_sql("CREATE TABLE mine (x INTEGER)")
    with pytest.raises(DamagedDatabaseError, match="prmcal did not write"):
        Writer(path)


def test_a_folder_that_is_renamed_in_use_is_named_and_not_made_again(writer: Writer, tmp_path: Path) -> None:
    moved = writer.path.parent.rename(tmp_path.with_name(f"{tmp_path.name}-moved"))
    with pytest.raises(MissingDatabaseError, match="removed or renamed"), writer.transaction():
        pass
    assert not writer.path.exists() and (moved / writer.path.name).exists()


def test_an_absent_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(MissingDatabaseError, match="Run a grid into this folder first"):
        catalog.jobs(published_path(tmp_path))


@pytest.mark.parametrize("rows", [300, 60], ids=["in a commit", "in a checkpoint"])
def test_a_full_disk_is_an_error_of_its_own_and_keeps_what_was_stored(writer: Writer, rows: int) -> None:
    record(writer, [JobRow(job_key="kept", kind="fit", parameters={}, status="done")])
    publish(writer)
    code = """
        import resource, signal, sys
        from pathlib import Path
        from prmcal.errors import DatabaseStorageError
        from prmcal.db.tables import QuestionRow
        from prmcal.db.writer import Writer
        writer = Writer(Path(sys.argv[1]))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        limit = Path(sys.argv[1]).stat().st_size + 100_000
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        place = dict(dataset="d", split="test", answer="")
        text = "".join(chr(33 + i * i % 90) for i in range(500))
        try:
            for part in range(20):
                rows = [QuestionRow(question_id=f"{part}-{i}", text=text * i, **place) for i in range(int(sys.argv[2]))]
                with writer.transaction(publish=True) as transaction:
                    transaction.record(rows)
        except DatabaseStorageError as error:
            print(error)
    """
    process = run_python(code, writer.path, Path(str(rows)))
    message = process.communicate()[0]
    assert process.returncode == 0
    assert "cannot be written" in message
    assert "Free some space" in message
    assert ("checkpoint" in message) is (rows == 60)
    assert list(catalog.jobs(writer.published)["job_key"]) == ["kept"]
    assert list(catalog.jobs(Writer(writer.path).path)["job_key"]) == ["kept"]


def test_a_folder_that_cannot_be_made_is_an_error_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DatabaseStorageError, match="cannot be written"):
        Writer(database_path(tmp_path / "file"))
