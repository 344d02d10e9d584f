"""An audit from files, or from a run, to an answer, and what it leaves in a folder."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from prmcal.db.queries.trajectories import scored_places, scored_prefixes
from prmcal.db.run_folder import RECORD_FILE
from prmcal.errors import DataError
from prmcal.harness.audit import verdict
from prmcal.harness.audit.choices import Choices, choices
from prmcal.harness.audit.estimates import Measured, Rows, fitted, measured
from prmcal.harness.audit.saved import SavedCalibrator, load_calibrator, parameters_of, save
from prmcal.harness.audit.scored import Scored, rows_of, scored
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import storage_errors
from prmcal.registry.reading.files import read_files
from prmcal.registry.reading.shapes import Solution
from prmcal.registry.reading.solutions import Fields
from prmcal.steps import split_steps

if TYPE_CHECKING:
    import altair as alt


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
        return verdict.tables(self.measured, self.choices)

    @property
    def charts(self) -> dict[str, alt.TopLevelMixin]:
        """The diagrams of the tables that have rows, by their names. They need Altair."""
        from prmcal.harness.audit.pictures import diagrams

        return {name: chart.picture for name, chart in diagrams(self.tables).items()}

    def __str__(self) -> str:
        return verdict.verdict(self.scored, self.measured, self.choices)

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
                "alarm": self.scored.alarm,
                **asdict(self.measured),
                "choices": None if self.choices is None else asdict(self.choices),
            }
            text = json.dumps(_without_nan(found), indent=1, ensure_ascii=False)
            (directory / "audit.json").write_text(text + "\n", encoding="utf-8")
            name = self.measured.chosen
            parameters = parameters_of(name, fitted(name, Rows(self.prefixes))) if name else {"map": "none"}
            save(directory, name, self.scored.scale, parameters, self.scored.of_questions)
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
    against: str | Path | None = None,
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
        The names that are audited of a run with several, by ``llm``, ``prm``, ``dataset`` and ``split``, or the values
        of a file, by its fields.
    against : str or Path, optional
        The folder of an earlier audit. An alarm says if the questions are no longer like those of that audit.
    """
    earlier = None if against is None else load_calibrator(against)
    if isinstance(source, pd.DataFrame):
        if only:
            raise DataError("The table is no run, and --only chooses from a run or a file. Leave it out.")
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
            solutions, words = run_solutions(paths[0], only or {})
            found = rows_of(solutions, named, Fields(scale="logit"), [words])
            return _measured(named, found, earlier)
        records = read_files(paths, only)
    return _measured(named, scored(records, named, fields or Fields()), earlier)


def _measured(named: str, found: Scored, earlier: SavedCalibrator | None) -> Audit:
    if found.prefixes["question"].nunique() < 2:
        raise DataError(
            f"{named} has scored solutions of one question only. An audit fits on some questions and measures on "
            "others. Add more questions, or name the field that tells them apart: --question FIELD."
        )
    if earlier is not None:
        alarm = earlier.alarm()
        alarm.add_all(found.of_questions.to_dict("records"))
        found = replace(found, alarm=alarm.message)
    values = measured(found)
    return Audit(named, found, values, choices(found, values.chosen))


_KINDS = ("llm", "prm", "dataset", "split")
_MEASURED = "test"


def is_run(path: Path) -> bool:
    """Return whether a path is the output folder of a run."""
    return (path / RECORD_FILE).is_file()


def run_solutions(directory: Path, only: Mapping[str, Sequence[str]]) -> tuple[list[Solution], str]:
    """Return the solutions of one LLM, PRM, data set and split of a run, and a sentence that says which.

    Raises a DataError if the run has nothing that is scored and has follow-ups, or if several places are left. The
    message names the choices. Raises a RunError or a DatabaseError if the folder has no readable results.

    `only` has the names that are wanted for ``llm``, ``prm``, ``dataset`` and ``split``. Without a split, it is that of
    the test questions if there is one. The field `asked` has the text of the question.
    """
    published = RunFolder(directory).results()
    place = _chosen(scored_places(published), directory, only)
    trajectories, prefixes = scored_prefixes(published, place)
    prefixes["rate"] = prefixes["successes"].astype("Float64") / prefixes["follow_ups"]
    prefixes = prefixes.astype({"logit": "float64", "rate": "float64"})
    by_trajectory = dict(tuple(prefixes.groupby(["question_id", "trajectory"], sort=False)))
    solutions = [
        _solution(row, own)
        for row in trajectories.itertuples()
        if (own := by_trajectory.get((row.question_id, row.trajectory))) is not None
    ]
    words = (
        f"Run {directory}: LLM {place['llm']}, PRM {place['prm']}, data set {place['dataset']}, {place['split']} "
        "questions."
    )
    return solutions, words


def _chosen(places: pd.DataFrame, directory: Path, only: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the place that is wanted."""
    if places.empty:
        raise DataError(f"{directory} has no rewards with success counts yet. Finish the run: prmcal run.")
    if unknown := only.keys() - set(_KINDS):
        raise DataError(f"A place of a run is chosen by {', '.join(_KINDS)}. Got '{min(unknown)}'.")
    for kind in _KINDS:
        names = list(dict.fromkeys(places[kind]))
        wanted = only.get(kind, [_MEASURED] if kind == "split" and _MEASURED in names else names)
        places = places[places[kind].isin(wanted)]
        if places.empty:
            raise DataError(
                f"{directory} has no {kind} '{wanted[0]}' with scores and success counts. It has: {', '.join(names)}."
            )
    several = {kind: names for kind in _KINDS if len(names := list(dict.fromkeys(places[kind]))) > 1}
    if several:
        listed = "; ".join(f"{kind} {', '.join(names)}" for kind, names in several.items())
        choice = " ".join(f"--only {kind}={names[0]}" for kind, names in several.items())
        raise DataError(
            f"{directory} has several places, and an audit is about one scorer of one LLM: {listed}. Choose one, such "
            f"as {choice}"
        )
    if len(places) > 1:
        raise DataError(
            f"{directory} was merged from several runs, which have {len(places)} scores of this place. Audit the "
            "folder of one of them."
        )
    return {str(name): value for name, value in places.iloc[0].items()}


def _solution(row: Any, own: pd.DataFrame) -> Solution:
    logits: list[float | None] = [None] * (row.steps + 1)
    rates: list[float | None] = [None] * (row.steps + 1)
    for step, logit, rate in zip(own["step"], own["logit"], own["rate"], strict=True):
        logits[step] = None if math.isnan(logit) else logit
        rates[step] = None if math.isnan(rate) else rate
    texts = split_steps(row.text) if isinstance(row.text, str) else []
    return {
        "question": row.question_id,
        "asked": row.question,
        "steps": texts if len(texts) == row.steps else [""] * int(row.steps),
        "score": logits,
        "rates": rates,
        "label": bool(row.correct),
        "answer": row.answer or "",
        "level": row.question_level,
        "cost": int(row.tokens),
    }
