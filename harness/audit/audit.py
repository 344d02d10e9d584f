"""An audit from files, or from a run, to an answer and to its folder with numbers, a report and a calibrator."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from prmcal import __version__
from prmcal.db.html.boards import template
from prmcal.db.text.formats import interval, number
from prmcal.db.text.overview import quantity
from prmcal.errors import DataError
from prmcal.harness.audit import verdict
from prmcal.harness.audit.choices import Choices, choices
from prmcal.harness.audit.estimates import Measured, Rows, fit_calibrator, measure
from prmcal.harness.audit.groups import by_maker, makers_of, overview, split
from prmcal.harness.audit.readings import MeasuredReading, readings, sentences
from prmcal.harness.audit.saved import SavedCalibrator, load_calibrator, save
from prmcal.harness.audit.scored import ScoredSolutions, is_run, rows_of, run_solutions, scored_records
from prmcal.harness.report.writer import can_draw
from prmcal.harness.storage.store import storage_errors
from prmcal.registry.reading.fields import Fields
from prmcal.registry.reading.files import read_files

if TYPE_CHECKING:
    import altair as alt

    from prmcal.db.charts import Figure

_HERE = Path(__file__).parent


@dataclass(frozen=True, eq=False)
class Audit:
    """The result of an audit. Its `prefixes`, `solutions` and `tables` are DataFrames."""

    source: str
    """The files, or "The table"."""
    scored: ScoredSolutions
    groups: Mapping[str, Audit] = field(default_factory=dict)
    """The audits of the LLMs or data sets of the file, by their names, if it has several."""
    by: tuple[str, ...] = ()
    """The fields whose values make the groups."""
    files: tuple[str, ...] = ()
    """The files, as they were named."""

    @cached_property
    def measured(self) -> Measured:
        """All that is measured of the scores. Raises a DataError without such questions."""
        if self.scored.prefixes.empty:
            raise DataError(f"{self.source} has no scores.")
        return measure(self.scored)

    @cached_property
    def choices(self) -> Choices | None:
        """The ways to choose between the solutions of a question; None if the questions have no two each."""
        return choices(self.scored)

    @cached_property
    def readings(self) -> tuple[MeasuredReading, ...]:
        """Whole solutions by each reading of the scores of their steps."""
        return readings(self.scored) if self._measured else ()

    @property
    def _measured(self) -> Measured | None:
        return None if self.scored.prefixes.empty else self.measured

    @property
    def prefixes(self) -> pd.DataFrame:
        """One row for each scored prefix; see :class:`prmcal.harness.audit.scored.ScoredSolutions`."""
        return self.scored.prefixes

    @property
    def solutions(self) -> pd.DataFrame:
        """One row for each solution."""
        return self.scored.solutions

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The numbers of the report: reliability, steps, difficulty, calibrators, readings and choices.

        The 95% interval of a value NAME is in NAME_low and NAME_high. A table without values has no rows.
        """
        return verdict.tables(self._measured, self.choices, self.readings)

    @property
    def charts(self) -> dict[str, alt.TopLevelMixin]:
        """The diagrams of the tables that have rows, by their names. They need Altair."""
        from prmcal.harness.audit.pictures import diagrams

        return {name: chart.picture for name, chart in diagrams(self.tables).items()}

    def __str__(self) -> str:
        if self.groups:
            return overview({name: group.measured for name, group in self.groups.items()}, self.by)
        return verdict.verdict(self.scored, self._measured, self.choices, readings=self.readings)

    def _repr_html_(self) -> str:
        """Return the report for a notebook: without a style of its own, and with the diagrams in it."""
        return template("findings.html", _HERE).render(**_contents(self, None))

    def save(self, directory: Path) -> None:
        """Write ``report.html``, its diagrams as SVG, ``audit.json`` and the calibrator into a folder.

        Each group has its own folder there.

        Without Altair and vl-convert, there are no diagrams. Raises a StorageError if the folder cannot be written.
        """
        for name, group in self.groups.items():
            group.save(directory / (re.sub(r"[^\w.-]+", "-", name).strip("-.") or "group"))
        if self.groups:
            return
        with storage_errors(directory):
            directory.mkdir(parents=True, exist_ok=True)
            contents = {
                "reading": list(self.scored.reading),
                "target": self.scored.target,
                "alarm": self.scored.alarm,
                **(asdict(self._measured) if self._measured else {}),
                "choices": None if self.choices is None else asdict(self.choices),
                "readings": [asdict(reading) for reading in self.readings],
            }
            # JSON has no NaN.
            plain = json.loads(json.dumps(contents), parse_constant=lambda name: None)
            text = json.dumps(plain, indent=1, ensure_ascii=False)
            (directory / "audit.json").write_text(text + "\n", encoding="utf-8")
            if self._measured:
                calibrator = fit_calibrator(self.measured.chosen or "uncalibrated", Rows(self.prefixes))
                scored = self.scored
                save(directory, calibrator, scored.scale, scored.of_questions, scored.field, self.files)
            _write_report(self, directory)


def _write_report(audited: Audit, directory: Path) -> None:
    """Write ``report.html`` and a file for each diagram into a folder. Without the packages there are no diagrams."""
    from prmcal.harness.site.writer import page

    contents = _contents(audited, str(directory))
    styles = [(_HERE / "report.css").read_text(encoding="utf-8")]
    figures = [figure["drawn"] for figure in contents["figures"].values() if figure["drawn"]]
    if figures:
        from prmcal.db.charts import style_sheet, with_dark_style

        styles.append(style_sheet())
        for chart, svg in figures:
            (directory / f"{chart.name}.svg").write_text(with_dark_style(svg), encoding="utf-8")
    (directory / "report.html").write_text(page("report.html", *styles, folder=_HERE, **contents), encoding="utf-8")


def audit(
    source: str | Path | pd.DataFrame | Sequence[str | Path],
    fields: Fields | None = None,
    only: Mapping[str, Sequence[str]] | None = None,
    against: str | Path | None = None,
    by: str | None = None,
) -> Audit:
    """Say what the scores in files are worth.

    Raises a DataError if a file cannot be read, or can be read in two ways.

    Parameters
    ----------
    source : str, Path, DataFrame or sequence of paths
        Files with scored solutions, or the output folder of a run. The last of several files can have the scores
        of the others.
    fields : Fields, optional
        The fields that cannot be found by their names.
    only : mapping, optional
        Selects one of several names of a run, by ``llm``, ``prm``, ``dataset`` and ``split``, or values of a file, by
        its fields.
    against : str or Path, optional
        The folder of an earlier audit. An alarm says if questions are no longer like the questions of that audit.
    by : str, optional
        The field whose values are audited one by one. By default, several LLMs or data sets are audited one by one.
    """
    earlier = None if against is None else load_calibrator(against)
    if isinstance(source, pd.DataFrame):
        if only:
            raise DataError("--only chooses from a run or a file, and a table is neither. Leave it out.")
        rows = source.astype(object).where(source.notna(), None).to_dict("records")
        title, records = "The table", [(f"row {number}", row) for number, row in enumerate(rows, start=1)]
        files: tuple[str, ...] = ()
    else:
        paths = [Path(path) for path in ([source] if isinstance(source, str | Path) else source)]
        title, files = ", ".join(map(str, paths)), tuple(map(str, paths))
        if len(paths) == 1 and is_run(paths[0]):
            if fields not in (None, Fields()):
                raise DataError(f"{title} is a run, whose fields are known. Leave out the options that name fields.")
            solutions, words = run_solutions(paths[0], only or {})
            scored = rows_of(solutions, title, Fields(scale="logit"), [words])
            return _audit_of(title, scored, earlier, files)
        records = read_files(paths, only, by_maker)
    fields = fields or Fields()
    makers = [by] if by else [name for name in makers_of(records) if name not in (only or {})]
    records_of = split(records, makers, title) if makers else {}
    scored_file = scored_records(records, title, fields)
    if scored_file.prefixes.empty or not makers:
        return _audit_of(title, scored_file, earlier, files)
    if not fields.scale:
        fields = replace(fields, scale=scored_file.scale.name)
    groups = {}
    for name, group_records in records_of.items():
        with suppress(DataError):  # It has too little.
            groups[name] = _audit_of(title, scored_records(group_records, title, fields), earlier, files)
    if len(groups) > 1:
        return Audit(title, scored_file, groups, tuple(makers))
    return _audit_of(title, scored_file, earlier, files)


def _audit_of(title: str, scored: ScoredSolutions, earlier: SavedCalibrator | None, files: tuple[str, ...]) -> Audit:
    if scored.solutions["question"].nunique() < 2 or scored.prefixes["question"].nunique() == 1:
        raise DataError(
            f"{title} has scored solutions of one question only. An audit fits on some questions and measures on "
            "others. Add more questions, or name the field that tells them apart: --question FIELD."
        )
    if earlier is not None:
        alarm = earlier.alarm()
        alarm.add_all(scored.of_questions.to_dict("records"))
        scored = replace(scored, alarm=f"{scored.alarm} {alarm.message}".strip())
    return Audit(title, scored, files=files)


def _drawings(tables: Mapping[str, pd.DataFrame]) -> dict[str, tuple[Figure, Any]]:
    """Return the diagrams and their SVG by the names of their tables."""
    if not can_draw():
        return {}
    from markupsafe import Markup

    from prmcal.db.charts import svg_of
    from prmcal.harness.audit.pictures import diagrams

    return {name: (chart, Markup(svg_of(chart.picture))) for name, chart in diagrams(tables).items()}


def _contents(audited: Audit, directory: str | None) -> dict[str, Any]:
    scored, measured, choices, tables = audited.scored, audited._measured, audited.choices, audited.tables
    drawings, headlines = _drawings(tables), verdict.headlines(scored, measured) if measured else ()
    return {
        "source": audited.source,
        "verdict": [*headlines, *sentences(audited.readings), *verdict.advice(choices)],
        "reading": scored.reading,
        "warnings": [*filter(None, [scored.alarm]), *scored.doubts, *(verdict.few(measured) if measured else [])],
        "errors": f"Brier score {quantity(measured.brier)}. {' '.join(verdict.errors_found(measured))}".rstrip()
        if measured
        else "",
        "figures": {
            name: {"drawn": drawings.get(name), "rows": _texts(table)} for name, table in tables.items() if len(table)
        },
        "compared": verdict.compared(choices) if choices else "",
        "limits": list(verdict.limits(scored, choices)),
        "directory": directory,
        "quoted": shlex.quote(directory or ""),
        "version": __version__,
    }


def _texts(table: pd.DataFrame) -> list[list[str]]:
    """Return the heads and the rows of a table as texts, with an interval behind its value."""
    heads = [name for name in table if not name.endswith(("_low", "_high"))]
    return [heads, *([_text(row, name) for name in heads] for row in table.to_dict("records"))]


def _text(row: dict[Any, Any], name: str) -> str:
    value = row[name]
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    low, high = row.get(f"{name}_low", math.nan), row.get(f"{name}_high", math.nan)
    return "" if math.isnan(value) else f"{number(value)} {interval(low, high)}".strip()
