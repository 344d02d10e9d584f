"""The check of tables from elsewhere, in a process with limited memory.

A small Parquet file can hold a table that no machine has room for, and a damaged one can crash the program that reads
it. So a process of its own reads the tables, with a limit on its memory. Before a table is read, the numbers in its
footer are compared with limits, and so is the size of its texts, which may be many copies of one.
"""

from __future__ import annotations

import contextlib
import json
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from prmcal.errors import BundleError, PrmcalError
from prmcal.harness.bundles.digests import digest_of, read_table
from prmcal.harness.bundles.format import TableDigest
from prmcal.registry.messages import excerpt, message_of

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = ["digests_of", "serve"]

MOST_ROWS, MOST_COLUMNS, MOST_BYTES = 2**26, 100, 2**31
"""The largest table. The bytes are those in memory, and those in its file before compression."""
_WIDTH = 8
"""Bytes of a value in memory, at most, besides a text."""
_MEMORY = 2**33
"""Bytes of addresses that the process may use, of which it has memory for a part."""


def digests_of(folder: Path, names: Sequence[str], where: str) -> Iterator[tuple[str, TableDigest]]:
    """Yield what tables contain, by their names in a folder. `where` is what they are part of, for the messages.

    Raises
    ------
    BundleError
        If a table cannot be read within the limits.
    """
    if not names:
        return
    with subprocess.Popen(
        [sys.executable, "-c", f"from {__name__} import serve; serve()", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            for name in names:
                with contextlib.suppress(BrokenPipeError):  # It ended, so the answer is empty.
                    process.stdin.write(json.dumps(name) + "\n")
                    process.stdin.flush()
                line = process.stdout.readline()
                answer = (
                    json.loads(line)
                    if line.endswith("\n")
                    else {"problem": "it ended the program that reads it"}
                )
                if "problem" in answer:
                    raise BundleError(f"{where}: the table {name} cannot be read: {answer['problem']}.")
                yield name, TableDigest(**answer)
        finally:
            process.kill()
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()


def serve() -> None:
    """Answer each name of a table on standard input with a line of JSON. The only argument is the folder."""
    folder = Path(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError, OSError):  # Some systems cannot limit the address space.
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    for line in sys.stdin:
        answer: dict[str, object]
        try:
            answer = asdict(_read(folder / json.loads(line)))
        except MemoryError:
            answer = {"problem": "it asks for too much memory"}
        except PrmcalError as error:
            answer = {"problem": str(error)}
        except Exception as error:  # Arrow's errors have no common base class.
            answer = {"problem": excerpt(message_of(error)).rstrip(".")}
        print(json.dumps(answer), flush=True)


def _read(path: Path) -> TableDigest:
    import pyarrow as pa
    import pyarrow.compute as compute

    table = read_table(path, _check)
    for column in table.columns:
        for chunk in column.chunks if pa.types.is_dictionary(column.type) else ():
            lengths = compute.binary_length(chunk.dictionary).cast(pa.int64())
            _limit("bytes", compute.sum(lengths.take(chunk.indices)).as_py() or 0, MOST_BYTES)
    return digest_of(table)


def _check(metadata: pq.FileMetaData, schema: pa.Schema) -> None:
    """Compare what a footer says with the limits. The process has a limit too, because a footer can be wrong."""
    import pyarrow as pa

    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    _limit("rows", metadata.num_rows, MOST_ROWS)
    _limit("columns", len(schema), MOST_COLUMNS)
    _limit("bytes", metadata.num_rows * len(schema) * _WIDTH, MOST_BYTES)
    _limit("bytes", sum(group.total_byte_size for group in groups), MOST_BYTES)
    for field in schema:
        if pa.types.is_nested(field.type):
            raise BundleError(f"its column {field.name} has the type {field.type}")


def _limit(what: str, found: int, most: int) -> None:
    if not 0 <= found <= most:
        raise BundleError(f"it says that it has {found:,} {what}, and {most:,} are the most")
