"""Records of files and of folders with data sets, and one message about all bad records."""

import io
import json
import warnings
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from prmcal.errors import DataError
from prmcal.registry.messages import excerpt, reading, refuse_pointer

Record = tuple[str, Any]
"""The place of a record ("line 3"), and its content. A ValueError in place of the content says why it is unreadable."""

T = TypeVar("T")

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SHOWN = 5


_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}


def read_records(path: Path) -> list[Record]:
    """Read the records of a file: Parquet (.parquet), a table (.csv, .tsv), a JSON list (.json) or else JSON lines.

    The records of a log of inspect (.eval, or JSON) are its samples. An array (.npy) has the scores of a question in
    each row, here in the field `rewards`. Each can be compressed (.gz, .bz2, .zst). A folder is a data set that the
    package `datasets` has saved.

    Raises a DataError if the file cannot be read or has another format.
    """
    with reading(f"The data set file {path} cannot be read"):
        path = path.expanduser()
        if path.is_dir():
            return _folder_rows(path)
        content = path.read_bytes()
        if path.suffix in _COMPRESSED:
            import pyarrow as pa

            content = pa.CompressedInputStream(pa.BufferReader(content), _COMPRESSED[path.suffix]).read()
            path = path.with_suffix("")
        content = content.removeprefix(_BYTE_ORDER_MARK)
    refuse_pointer(path, content)
    if path.suffix == ".eval":
        return _eval_samples(path, content)
    if path.suffix == ".parquet":
        return _parquet_rows(path, content)
    if path.suffix in (".csv", ".tsv"):
        return _table_rows(path, content)
    if path.suffix == ".npy":
        return _array_rows(path, content)
    if (path.suffix == ".json" and content.lstrip().startswith(b"[")) or _is_one_value(content):
        return _json_list(path, content)
    lines = enumerate(content.splitlines(), start=1)
    return [(f"line {number}", _json_or_reason(line)) for number, line in lines if line.strip()]


def good_records(
    records: Iterable[Record], convert: Callable[[str, Any], T], source: str, skip: bool | None = None
) -> list[T]:
    """Convert records, and report all bad ones at once.

    `convert` takes the place and the content of a record. It raises ValueError if the record is bad. `source` is for
    messages. With `skip`, bad records are left out with a warning; otherwise they raise a DataError. Use None for data
    sets without such an argument.
    """
    good: list[T] = []
    bad: list[str] = []
    for place, record in records:
        try:
            if isinstance(record, ValueError):
                raise record
            good.append(convert(place, record))
        except ValueError as error:
            bad.append(f"{place}: {error}")
    if not bad:
        return good
    total, count = len(good) + len(bad), len(bad)
    more = f"; and {count - _SHOWN:,} more" if count > _SHOWN else ""
    places = "; ".join(bad[:_SHOWN]) + more
    if skip:
        warnings.warn(f"{source}: {count:,} of {total:,} rows were skipped. They are {places}.", stacklevel=2)
        return good
    message = f"{source}, {places}." if count == 1 else f"{source} has {count:,} bad rows among {total:,}: {places}."
    raise DataError(
        f"{message} Correct or remove {'it' if count == 1 else 'them'}."
        if skip is None
        else f"{message} Set 'skip_bad_rows: true' to go on without bad rows."
    )


def _is_one_value(content: bytes) -> bool:
    """Return whether a file is one JSON value: over several lines, or an object of lists. Else it has JSON lines."""
    first_line, _, other_lines = content.strip().partition(b"\n")
    try:
        value = json.loads(first_line)
        fields = value if isinstance(value, dict) and not other_lines else {}
        lists = [value for value in fields.values() if isinstance(value, list)]
        has_question = fields.keys() & {"question", "problem"}
        return bool(lists) and not has_question and all(isinstance(entry, dict) for entry in lists[0])
    except (ValueError, RecursionError):
        pass
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True


def _json_or_reason(content: bytes) -> Any:
    try:
        with reading(""):
            return json.loads(content.decode())
    except DataError as error:
        return ValueError(str(error).removeprefix(": ").rstrip("."))


def _json_list(path: Path, content: bytes) -> list[Record]:
    with reading(f"{path} is not a valid JSON list"):
        records = json.loads(content.decode())
    if isinstance(records, dict) and {"eval", "samples"} <= records.keys():  # A log of inspect.
        records = records["samples"]
    if not isinstance(records, list):
        fields = records.items() if isinstance(records, dict) else ()
        lists = [name for name, value in fields if isinstance(value, list)]
        advice = f" Its records seem to be in '{excerpt(lists[0])}': write that list alone." if lists else ""
        kind = "object" if isinstance(records, dict) else "value"
        raise DataError(f"{path} is a JSON {kind} where a list of records is expected.{advice}")
    return [(f"record {number}", record) for number, record in enumerate(records, start=1)]


def _eval_samples(path: Path, content: bytes) -> list[Record]:
    """Return the samples of a log of inspect, which is an archive with a JSON file for each."""
    with reading(f"{path} is not a valid log of inspect"):
        archive = zipfile.ZipFile(io.BytesIO(content))
        names = [name for name in archive.namelist() if name.startswith("samples/")]
        return [(name, json.loads(archive.read(name))) for name in names if name.endswith(".json")]


def _parquet_rows(path: Path, content: bytes) -> list[Record]:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    with reading(f"{path} is not a valid Parquet file"):
        rows = parquet.read_table(pa.BufferReader(content)).to_pylist()
    return [(f"row {number}", row) for number, row in enumerate(rows, start=1)]


def _table_rows(path: Path, content: bytes) -> list[Record]:
    """Return the rows of a table. Lists in its cells are JSON, and an empty cell is None."""
    import pandas as pd

    with reading(f"{path} is not a valid table"):
        table = pd.read_csv(io.BytesIO(content), sep="\t" if path.suffix == ".tsv" else ",")
        for name in table.columns:
            if (text := table[name].dropna()).map(lambda cell: str(cell).startswith("[")).all() and len(text):
                table[name] = table[name].map(json.loads, na_action="ignore")
    rows = table.astype(object).where(table.notna(), None).to_dict("records")
    return [(f"row {number}", row) for number, row in enumerate(rows, start=1)]


def _array_rows(path: Path, content: bytes) -> list[Record]:
    import numpy as np

    with reading(f"The rewards {path} cannot be read as a .npy file"):
        array = np.load(io.BytesIO(content), allow_pickle=False)
    if not isinstance(array, np.ndarray) or array.ndim < 2 or not np.issubdtype(array.dtype, np.number):
        raise DataError(f"The rewards {path} must be one array of numbers, of shape (questions, samples).")
    return [(f"row {number}", {"rewards": row}) for number, row in enumerate(array.tolist(), start=1)]


def _folder_rows(path: Path) -> list[Record]:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    rows: list[Any] = []
    with reading(f"The data set in {path} cannot be read"):
        for file in sorted(path.rglob("*.arrow")):
            with pa.memory_map(str(file)) as source:
                rows += pa.ipc.open_stream(source).read_all().to_pylist()
        for file in () if rows else sorted(path.rglob("*.parquet")):
            rows += parquet.read_table(file).to_pylist()
    if not rows:
        raise DataError(f"{path} is a folder without a data set: it has no .arrow or .parquet file with rows.")
    return [(f"row {number}", row) for number, row in enumerate(rows, start=1)]
