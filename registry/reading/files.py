"""The records of several files together: one after another, or with the scores of one in the records of another."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prmcal.errors import DataError
from prmcal.registry.messages import excerpt
from prmcal.registry.reading.pools import pool_path
from prmcal.registry.reading.records import Record, read_records
from prmcal.registry.reading.shapes import IDS as SOLUTION_IDS
from prmcal.registry.reading.shapes import LABELS, QUESTIONS, SCORES

_IDS = ("id", "idx", "index", "uid", "question_id", "doc_id", "task_id")


def read_files(
    paths: Sequence[Path],
    only: Mapping[str, Sequence[Any]] | None = None,
    split: Callable[[list[Record]], Iterable[Record]] = list,
) -> list[Record]:
    """Return the records of files, one after another. The last file may have the scores of the others.

    Scores belong to records with the same id, or in the same order. `split` divides records, and `only` keeps those
    with one of some values, by the name of the field. Raises a DataError if a file cannot be read, or nothing is left.
    """
    files = [read_records(Path(pool_path(str(path)))) for path in paths]
    records = _numbered(files[:-1], paths)
    added = _added(records, files[-1])
    records = _joined(records, files[-1], added, paths) if added else _numbered(files, paths)
    records = list(split(records))
    for name, values in (only or {}).items():
        wanted = set(map(str, values))
        of_field = [(place, each) for place, each in records if isinstance(each, Mapping) and name in each]
        records = [(place, each) for place, each in of_field if str(each[name]) in wanted]
        if not records:
            known = ", ".join(dict.fromkeys(str(each[name]) for _, each in of_field)) or "no such field"
            raise DataError(
                f"{', '.join(map(str, paths))} has no records whose '{name}' is {' or '.join(wanted)}. It has: {known}."
            )
    return records


def _numbered(files: Sequence[list[Record]], paths: Sequence[Path]) -> list[Record]:
    """Return the records of all files. The places of several files end with a number over all of them."""
    if len(files) == 1:
        return files[0]
    every = [(f"{path.name}, {place}", each) for file, path in zip(files, paths, strict=False) for place, each in file]
    return [(f"{place}, in all {number}", each) for number, (place, each) in enumerate(every, start=1)]


def _added(records: Sequence[Record], last: Sequence[Record]) -> list[str]:
    """Return the fields that the last file adds to the records of the others, if only one has the scores or labels."""
    if not records or not last:
        return []
    first, scores = records[0][1], last[0][1]
    if not isinstance(first, Mapping) or not isinstance(scores, Mapping) or set(first) <= set(scores):
        return []
    added = [name for name in scores if name not in first]
    return added if {*SCORES, *LABELS}.intersection(set(first) ^ set(scores)) else []


def _joined(
    records: Sequence[Record], scores: Sequence[Record], added: Sequence[str], paths: Sequence[Path]
) -> list[Record]:
    keys = _shared_ids(records, scores)
    if not keys and len(records) != len(scores):
        raise DataError(
            f"{', '.join(map(str, paths[:-1]))} has {len(records):,} records and {paths[-1]} has {len(scores):,}, and "
            f"no field names which belong together. Add one of {', '.join(_IDS)} to both."
        )

    def named(rows: Sequence[Record]) -> list[tuple[str, Mapping[str, Any]]]:
        contents = [content if isinstance(content, Mapping) else {} for _, content in rows]
        # Any value can be an id of a stranger's file.
        return [(", ".join(str(content.get(key)) for key in keys), content) for content in contents]

    owners, others = named(records), named(scores)
    if len(dict(others)) < len(others):  # Ids repeat, so their order tells their records apart.
        owners, others = _counted(owners), _counted(others)
    known = dict(others)
    if missing := [each for each, _ in owners if each not in known]:
        raise DataError(
            f"{paths[-1]} has nothing for {len(missing):,} records of {paths[0]}, such as {excerpt(missing[0])}."
        )
    return [
        (place, {**own, **{name: known[each].get(name) for name in added}} if own else content)
        for (place, content), (each, own) in zip(records, owners, strict=True)
    ]


def _counted(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return rows with names that tell how often each came before."""
    before = Counter[str]()
    names = []
    for name, content in rows:
        before[name] += 1
        names.append((f"{name} ({before[name]})" if name else str(before[name]), content))
    return names


def _shared_ids(records: Sequence[Record], scores: Sequence[Record]) -> tuple[str, ...]:
    """Return the fields that name records in both files: all of them, if they are needed to tell the scores apart."""
    contents = [content for _, content in scores if isinstance(content, Mapping)]
    first = records[0][1]
    shared = [name for name in (*_IDS, *QUESTIONS, *SOLUTION_IDS) if name in first and name in contents[0]]
    for count in range(1, len(shared) + 1):
        names = tuple(dict.fromkeys(shared[:count]))
        if len({tuple(str(content.get(name)) for name in names) for content in contents}) == len(contents):
            return names
    return tuple(dict.fromkeys(shared))
