"""A worker: it computes one shard after the other and sends an outcome for each."""

import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from prmcal.errors import ModelBrokenError, StorageError
from prmcal.harness.execution.ending import Failure
from prmcal.harness.execution.events import ShardOutcome
from prmcal.harness.jobs import compute
from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.storage.store import Store
from prmcal.registry.network import LOGGER
from prmcal.registry.plugins import load_plugin_file

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
"""With one thread each, results do not depend on the number of cores, and processes do not disturb each other."""
_LONGEST_LINE = 200


@contextmanager
def starting_with(variables: Mapping[str, str]) -> Iterator[None]:
    """Give processes that are started meanwhile some environment variables, and nothing of this program.

    Otherwise they would import the program that starts them, and a script that runs a grid would run it again.
    """
    before, program = dict(os.environ), sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    os.environ.update(variables)
    try:
        yield
    finally:
        sys.modules["__main__"] = program
        os.environ.clear()
        os.environ.update(before)


def end_with(pipe: int) -> None:
    """Make sure that this process, and all that plugins start, such as an engine, end when a pipe is closed.

    The process that started this process holds the other end and writes nothing. A thread would not be enough: native
    code of a plugin can hold the interpreter's lock for ever.

    `pipe` is the descriptor of the end that is read.
    """
    os.setpgid(0, 0)
    # `kill 0` is for the group.
    subprocess.Popen(["/bin/sh", "-c", "trap '' HUP INT TERM; read -r line; kill -KILL 0"], stdin=pipe)


def run_shard(shard: Shard[Parameters], context: Context) -> ShardOutcome:
    """Compute a shard and store its artifact. A failure becomes an outcome with a reason."""
    begin = time.perf_counter()
    with _collected(context.report) as log:
        try:
            output = compute(shard, context)
            figures = {name: getattr(output, name) for name in ("samples", "generated_tokens", "scored_tokens")}
            figures["seconds"] = round(time.perf_counter() - begin, 3)
            manifest = context.store.write(shard.ref, lambda folder: _write(output, folder), figures)
            context.store.drop_checkpoints(shard.ref)
            return ShardOutcome(shard.ref, manifest, log=tuple(log))
        except Exception as error:
            failure, lines = Failure.of(error, shard.ref.kind), (*log, "".join(traceback.format_exception(error)))
            fatal, broken = isinstance(error, StorageError), isinstance(error, ModelBrokenError)
            return ShardOutcome(shard.ref, failure=failure, fatal=fatal, broken=broken, log=lines)


class _Collector(logging.Handler):
    """Collect log records and warnings. Messages about a network are also shown with the progress."""

    def __init__(self, report: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []
        self._report = report

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname.lower()}: {record.getMessage()}")
        if record.name == LOGGER:
            self._report(record.getMessage())


@contextmanager
def _collected(report: Callable[[str], None]) -> Iterator[list[str]]:
    collector, root = _Collector(report), logging.getLogger()
    root.addHandler(collector)
    logging.captureWarnings(True)
    try:
        yield collector.lines
    finally:
        logging.captureWarnings(False)
        root.removeHandler(collector)


def serve(connection: Connection, directory: Path, plugin_files: Sequence[Path], output: Path) -> None:
    """Run the shards that arrive, until the connection closes or the process that started this process ends.

    The worker sends an empty line when it has started, lines about the progress of a shard, which are cut after 200
    characters, and its outcome. Output of plugins goes to the file `output`.
    """
    # A scheduler sends these to every process. The coordinator then records what is done and ends the workers. Other
    # programs that a plugin starts do not inherit this, as they would if the signals were ignored.
    for signal_number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signal_number, lambda *_: None)
    parent = multiprocessing.parent_process()
    assert parent is not None
    end_with(parent.sentinel)
    with output.open("ab", buffering=0) as stream:  # Native code prints there too.
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)

    def report(line: object) -> None:
        connection.send(" ".join(str(line).split())[:_LONGEST_LINE])

    context = Context(Store(directory), report)
    for file in plugin_files:
        load_plugin_file(file)
    report("")  # It says that the worker has started.
    while True:
        try:
            shard: Shard[Parameters] = connection.recv()
        except EOFError:
            return
        connection.send(run_shard(shard, context))


def _write(output: Output, folder: Path) -> None:
    import pyarrow.parquet as parquet

    for name, frame in output.tables.items():
        parquet.write_table(as_stored(frame), folder / f"{name}.parquet", compression="zstd")
    if output.save is not None:
        output.save(folder)


def as_stored(frame: "pd.DataFrame") -> "pa.Table":
    """Return a table of the output of a job as an artifact has it."""
    import pyarrow as pa

    return pa.Table.from_pandas(frame, preserve_index=False, nthreads=1).replace_schema_metadata(None)
