"""The records of several files together: one after another, or with the scores of one in the records of another."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prmcal.errors import DataError
from prmcal.registry.messages import excerpt
from prmcal.registry.reading.pools import pool_path
from prmcal.registry.reading.records import Record, read_records
from prmcal.registry.reading.roles import IDS as SOLUTION_IDS
from prmcal.registry.reading.roles import LABELS, QUESTIONS, SCORES

_IDS = ("id", "idx", "index", "uid", "question_id", "doc_id", "task_id")


def read_files(
    paths: Sequence[Path],
    only: Mapping[str, Sequence[Any]] | None = None,
    split: Callable[[list[Record]], Iterable[Record]] = list,
) -> list[Record]:
    """Return the records of files, one after another. The last file may have the scores of the others.

    Scores belong to records with the same id, or in the same order. `split` divides records, and `only` keeps records
    by values of fields. Raises a DataError if a file cannot be read, or nothing is left.
    """
    files = [read_records(Path(pool_path(str(path)))) for path in paths]
    records = _numbered(files[:-1], paths)
    score_fields = _score_fields(records, files[-1])
    records = _joined(records, files[-1], score_fields, paths) if score_fields else _numbered(files, paths)
    records = list(split(records))
    for name, values in (only or {}).items():
        allowed_texts = set(map(str, values))
        with_field = [
            (place, content) for place, content in records if isinstance(content, Mapping) and name in content
        ]
        records = [(place, content) for place, content in with_field if str(content[name]) in allowed_texts]
        if not records:
            present = ", ".join(dict.fromkeys(str(content[name]) for _, content in with_field)) or "no such field"
            raise DataError(
                f"{', '.join(map(str, paths))} has no records whose '{name}' is {' or '.join(allowed_texts)}. "
                f"It has: {present}."
            )
    return records


def _numbered(files: Sequence[list[Record]], paths: Sequence[Path]) -> list[Record]:
    """Return the records of all files. In several files, each place ends with a number that counts over all files."""
    if len(files) == 1:
        return files[0]
    files_and_paths = zip(files, paths, strict=False)
    records = [(f"{path.name}, {place}", content) for file, path in files_and_paths for place, content in file]
    return [(f"{place}, in all {number}", content) for number, (place, content) in enumerate(records, start=1)]


def _score_fields(records: Sequence[Record], score_records: Sequence[Record]) -> list[str]:
    """Return the fields that the last file adds to the records of the others, if only one has the scores or labels."""
    if not records or not score_records:
        return []
    record, score_record = records[0][1], score_records[0][1]
    if not isinstance(record, Mapping) or not isinstance(score_record, Mapping) or set(record) <= set(score_record):
        return []
    added_fields = [name for name in score_record if name not in record]
    return added_fields if {*SCORES, *LABELS}.intersection(set(record) ^ set(score_record)) else []


def _joined(
    records: Sequence[Record], scores: Sequence[Record], added_fields: Sequence[str], paths: Sequence[Path]
) -> list[Record]:
    keys = _shared_ids(records, scores)
    if not keys and len(records) != len(scores):
        raise DataError(
            f"{', '.join(map(str, paths[:-1]))} has {len(records):,} records and {paths[-1]} has {len(scores):,}, and "
            f"no field says which belong together. Add one of {', '.join(_IDS)} to both."
        )

    def with_ids(file_records: Sequence[Record]) -> list[tuple[str, Mapping[str, Any]]]:
        contents = [content if isinstance(content, Mapping) else {} for _, content in file_records]
        # An id in a user's file can be of any type.
        return [(", ".join(str(content.get(key)) for key in keys), content) for content in contents]

    rows, score_rows = with_ids(records), with_ids(scores)
    if len(dict(score_rows)) < len(score_rows):  # Ids repeat, so their order tells their records apart.
        rows, score_rows = _with_repeats(rows), _with_repeats(score_rows)
    scores_by_id = dict(score_rows)
    if missing := [record_id for record_id, _ in rows if record_id not in scores_by_id]:
        raise DataError(f"{paths[-1]} lacks {len(missing):,} records of {paths[0]}, such as {excerpt(missing[0])}.")
    return [
        (place, {**fields, **{name: scores_by_id[record_id].get(name) for name in added_fields}} if fields else content)
        for (place, content), (record_id, fields) in zip(records, rows, strict=True)
    ]


def _with_repeats(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return rows in which equal ids differ by a number at their end."""
    counts = Counter[str]()
    counted_rows = []
    for row_id, content in rows:
        counts[row_id] += 1
        counted_rows.append((f"{row_id} ({counts[row_id]})" if row_id else str(counts[row_id]), content))
    return counted_rows


def _shared_ids(records: Sequence[Record], scores: Sequence[Record]) -> tuple[str, ...]:
    """Return the fields that name records in both files, as few as distinguish the scores."""
    contents = [content for _, content in scores if isinstance(content, Mapping)]
    first_content = records[0][1]
    candidates = dict.fromkeys((*_IDS, *QUESTIONS, *SOLUTION_IDS))
    shared = tuple(name for name in candidates if name in first_content and name in contents[0])
    for count in range(1, len(shared)):
        values = {tuple(str(content.get(name)) for name in shared[:count]) for content in contents}
        if len(values) == len(contents):
            return shared[:count]
    return shared
