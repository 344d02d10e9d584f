"""The values of calibration cells by a field of the questions, such as subject, level or language."""

from math import nan
from typing import Any, Unpack

import numpy as np
import pandas as pd
import sqlalchemy as sa

from prmcal.db.queries.cells import Names, numbered_cells, of_job, with_names
from prmcal.db.queries.runs import jobs_of
from prmcal.db.queries.trajectories import is_counted, judged_prefixes
from prmcal.db.reader import Source, connection_of, frame, known_levels
from prmcal.db.statistics import intervals
from prmcal.db.statistics.bootstrap import Ratio
from prmcal.db.statistics.intervals import UNKNOWN, Estimate
from prmcal.db.tables import Cell, JobRow, QuestionRow, TrajectoryRow
from prmcal.errors import PrmcalError

MICRO, MACRO = "all (micro)", "mean of groups (macro)"
"""The names of the mean over all questions, and of the mean of the groups."""
_COLUMNS = ("question_id", "subject", "level", "fields")
_RULES: dict[str, intervals.IntervalRule] = {
    "accuracy": intervals.bounded_interval,
    **dict.fromkeys(("brier_before", "brier_after"), intervals.error_interval),
    **dict.fromkeys(("error_before", "error_after"), intervals.signed_interval),
}


def grouping_fields(source: Source) -> list[str]:
    """Return the names of the fields by which the questions of a run can be grouped: those with several values."""
    values_of: dict[str, set[str]] = {}
    for fields in _fields(frame(source, sa.select(*QuestionRow.columns(*_COLUMNS)))):
        for name, value in fields.items():
            values_of.setdefault(name, set()).add(value)
    return [name for name, values in values_of.items() if len(values) > 1]


def by_group(source: Source, field: str, **names: Unpack[Names]) -> pd.DataFrame:
    """Return the values of the finished calibration cells for the questions with each value of a field.

    The `names` keep only some cells. A cell has a row for each group, one for all questions (:data:`MICRO`), and one
    for the mean of the groups (:data:`MACRO`), in which each group counts the same. The columns are cell_id, number,
    dataset, llm, prm, calibrator, group, questions, prefixes and, with their 95% intervals, accuracy (the share of
    right solutions), brier_before, brier_after (Brier scores of PRM and calibrator, without the noise of follow-ups),
    error_before and error_after (means of reward minus success rate). A single question has the interval NaN. The same
    holds for a mean of groups if one group is a single question. Questions without the field are the group "none".
    Raises a PrmcalError if the field does not have several values.
    """
    with connection_of(source) as connection:
        if field not in (fields := grouping_fields(connection)):
            raise PrmcalError(
                f"No questions can be grouped by '{field}'. Fields with several values: {', '.join(fields) or 'none'}."
            )
        query = numbered_cells("dataset", "llm", "prm", "calibrator")
        cells = frame(connection, query.where(Cell.leaderboard == "calibration", Cell.status == "done"))
        tables = [
            _groups(rows).assign(**cell)
            for cell in with_names(cells, names).to_dict("records")
            if len(rows := _by_question(connection, cell["cell_id"], field))
        ]
    return pd.concat(tables or [pd.DataFrame()], ignore_index=True)


def _fields(questions: pd.DataFrame) -> list[dict[str, str]]:
    """Return the fields of each question that are known."""
    fields = ({"subject": row.subject, "level": row.level, **row.fields} for row in questions.itertuples())
    return [{name: str(value) for name, value in of_question.items() if value} for of_question in fields]


def _by_question(connection: sa.Connection, cell_id: str, field: str) -> pd.DataFrame:
    """Return the group of each question of a cell, and the sums over its prefixes."""
    jobs = jobs_of(connection, cell_id)
    judged = judged_prefixes(jobs)
    noise = judged.c.success * (1 - judged.c.success) / sa.func.greatest(judged.c.follow_ups - 1, 1)
    errors = {"before": judged.c.reward - judged.c.success, "after": judged.c.calibrated_reward - judged.c.success}
    sums = sa.select(
        judged.c.question_id,
        sa.func.count().label("prefixes"),
        *(sa.func.sum(error * error - noise).label(f"brier_{name}") for name, error in errors.items()),
        *(sa.func.sum(error).label(f"error_{name}") for name, error in errors.items()),
    )
    sums = sums.where(is_counted(judged.c.terminal, Cell.cell_id == cell_id)).group_by(judged.c.question_id)
    right = sa.select(
        TrajectoryRow.question_id,
        sa.func.count().label("solutions"),
        sa.func.sum(sa.cast(TrajectoryRow.correct, sa.Integer)).label("accuracy"),
    )
    right = right.where(TrajectoryRow.job_key == jobs.graded).group_by(TrajectoryRow.question_id)
    of_split = sa.select(*QuestionRow.columns(*_COLUMNS)).join(JobRow, of_job(QuestionRow.question_id))
    questions = frame(connection, of_split.where(JobRow.job_key == jobs.graded))
    questions["group"] = [fields.get(field, "none") for fields in _fields(questions)]
    rows = frame(connection, sums).merge(frame(connection, right), on="question_id")
    return rows.merge(questions[["question_id", "group"]], on="question_id").sort_values("question_id")


def _groups(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the values of each group, of all questions, and of the mean of the groups."""
    groups = pd.DataFrame([_group(name, rows[rows["group"] == name]) for name in known_levels(rows["group"])])
    macro = {"group": MACRO, "questions": len(rows), "prefixes": int(rows["prefixes"].sum())}
    for measure in _RULES:
        values, low, high = (groups[f"{measure}{end}"].to_numpy(np.float64) for end in ("", "_low", "_high"))
        # From the intervals of the groups: Zou and Donner (2008), Statistics in Medicine 27, 1693-1702
        below, above = (float(np.linalg.norm(end - values)) / len(values) for end in (low, high))
        mean = float(values.mean())
        macro |= Estimate(mean, mean - below, mean + above).columns(measure)
    return pd.concat([groups, pd.DataFrame([_group(MICRO, rows), macro])], ignore_index=True)


def _group(name: str, rows: pd.DataFrame) -> dict[str, Any]:
    """Return the values of some questions with their intervals."""
    values: dict[str, Any] = {"group": name, "questions": len(rows), "prefixes": int(rows["prefixes"].sum())}
    for measure, rule in _RULES.items():
        counts = rows["solutions" if measure == "accuracy" else "prefixes"]
        known_rows = rows[measure].notna().all()  # Without calibrated rewards there is no error after calibration.
        ratio = Ratio(rows[measure].fillna(0), counts, rows["question_id"], rule)
        ends = ratio.interval() if len(rows) > 1 else (nan, nan)
        values |= (Estimate(ratio.value(), *ends) if known_rows else UNKNOWN).columns(measure)
    return values
