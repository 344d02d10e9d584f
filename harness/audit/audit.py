"""An audit from files to an answer, and what it leaves in a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from prmcal.errors import DataError
from prmcal.harness.audit.choices import Choices, choices
from prmcal.harness.audit.estimates import Measured, Rows, fitted, measured
from prmcal.harness.audit.runs import is_run, scored_run
from prmcal.harness.audit.saved import parameters_of, save
from prmcal.harness.audit.scored import Scored, scored
from prmcal.harness.audit.tables import tables
from prmcal.harness.audit.verdict import verdict
from prmcal.harness.storage.store import storage_errors
from prmcal.registry.reading.records import Record, read_records
from prmcal.registry.reading.shapes import SCORES
from prmcal.registry.reading.solutions import Fields

if TYPE_CHECKING:
    import altair as alt

_IDS = ("id", "idx", "index", "uid", "question_id", "doc_id")


@dataclass(frozen=True, eq=False)
class Audit:
    """The result of an audit. Its `prefixes`, `solutions` and `tables` are DataFrames."""

    source: str
    """The files, or "The table"."""
    scored: Scored
    measured: Measured
    choices: Choices | None

    @property
    def prefixes(self) -> pd.DataFrame:
        """One row for each scored prefix; see :class:`prmcal.harness.audit.scored.Scored`."""
        return self.scored.prefixes

    @property
    def solutions(self) -> pd.DataFrame:
        """One row for each solution."""
        return self.scored.solutions

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The numbers of the report: reliability, steps, difficulty, calibrators, learning and choices.

        The 95% interval of a value NAME is in NAME_low and NAME_high. A table without values has no rows.
        """
        return tables(self.measured, self.choices)

    @property
    def charts(self) -> dict[str, alt.TopLevelMixin]:
        """The diagrams of the tables that have rows, by their names. They need Altair."""
        from prmcal.harness.audit.pictures import charts

        return {name: chart.picture for name, chart in charts(self.tables).items()}

    def __str__(self) -> str:
        return verdict(self.scored, self.measured, self.choices)

    def _repr_html_(self) -> str:
        from prmcal.harness.audit.report import fragment

        return fragment(self.source, self.scored, self.measured, self.choices)

    def save(self, directory: Path) -> None:
        """Write ``report.html``, its diagrams as SVG, ``audit.json`` and the calibrator into a folder.

        Without Altair and vl-convert, there are no diagrams. Raises a StorageError if the folder cannot be written.
        """
        from prmcal.harness.audit.report import write_report

        with storage_errors(directory):
            directory.mkdir(parents=True, exist_ok=True)
            found = {
                "reading": list(self.scored.reading),
                "target": self.scored.target,
                **asdict(self.measured),
                "choices": None if self.choices is None else asdict(self.choices),
            }
            text = json.dumps(_without_nan(found), indent=1, ensure_ascii=False)
            (directory / "audit.json").write_text(text + "\n", encoding="utf-8")
            name = self.measured.chosen
            parameters = parameters_of(name, fitted(name, Rows(self.prefixes))) if name else {"map": "none"}
            save(directory, name, self.scored.scale, parameters)
            write_report(directory, self.source, self.scored, self.measured, self.choices)


def _without_nan(value: Any) -> Any:
    """Return a value with None in place of NaN, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and value != value else value


def audit(
    source: str | Path | pd.DataFrame | Sequence[str | Path],
    fields: Fields | None = None,
    only: Mapping[str, Sequence[str]] | None = None,
) -> Audit:
    """Say what the scores in files are worth.

    Raises a DataError if a file cannot be read, or can be read in two ways.

    Parameters
    ----------
    source : str, Path, DataFrame or sequence of paths
        Files with scored solutions, or the output folder of a run. Of two files, the second one can have the scores of
        the first.
    fields : Fields, optional
        The fields that cannot be found by their names.
    only : mapping, optional
        The names that are audited of a run with several, by ``llm``, ``prm``, ``dataset`` and ``split``.
    """
    if isinstance(source, pd.DataFrame):
        rows = source.astype(object).where(source.notna(), None).to_dict("records")
        named, records = "The table", [(f"row {number}", row) for number, row in enumerate(rows, start=1)]
    else:
        paths = [Path(each) for each in ([source] if isinstance(source, str | Path) else source)]
        named = ", ".join(map(str, paths))
        if len(paths) == 1 and is_run(paths[0]):
            if fields not in (None, Fields()):
                raise DataError(
                    f"{named} is a run, whose fields are known. Leave out the options that name fields."
                )
            return _measured(named, scored_run(paths[0], only or {}))
        records = _records(paths)
    if only:
        raise DataError(f"{named} is no run, and --only chooses from a run. Leave it out.")
    return _measured(named, scored(records, named, fields or Fields()))


def _measured(named: str, found: Scored) -> Audit:
    if found.prefixes["question"].nunique() < 2:
        raise DataError(
            f"{named} has scored solutions of one question only. An audit fits on some questions and measures on "
            "others. Add more questions, or name the field that tells them apart: --question FIELD."
        )
    values = measured(found)
    return Audit(named, found, values, choices(found, values.chosen))


def _records(paths: Sequence[Path]) -> list[Record]:
    """Return the records of files, one after another, or with the scores of the second file in those of the first."""
    files = [read_records(path) for path in paths]
    if len(files) == 2 and all(files):
        labels, scores = (records[0][1] for records in files)
        if isinstance(labels, Mapping) and isinstance(scores, Mapping):
            added = [name for name in SCORES if name in scores and name not in labels]
            if added and not set(labels) <= set(scores):
                return _joined(files[0], files[1], added, paths)
    return [record for records in files for record in records]


def _joined(
    first: Sequence[Record], second: Sequence[Record], added: Sequence[str], paths: Sequence[Path]
) -> list[Record]:
    key = next((name for name in _IDS if name in first[0][1] and name in second[0][1]), None)
    if key is None and len(first) != len(second):
        raise DataError(
            f"{paths[0]} has {len(first):,} records and {paths[1]} has {len(second):,}, and no field names which "
            f"belong together. Add one of {', '.join(_IDS)} to both."
        )
    others: list[Mapping[str, Any]] = [content for _, content in second]
    by_key = {content[key]: content for content in others} if key else {}
    missing = [content[key] for _, content in first if content[key] not in by_key] if key else []
    if missing:
        raise DataError(
            f"{paths[1]} has no scores for {len(missing):,} records of {paths[0]}, such as {missing[0]!r}."
        )
    return [
        (place, {**content, **{name: (by_key[content[key]] if key else others[row])[name] for name in added}})
        for row, (place, content) in enumerate(first)
    ]
