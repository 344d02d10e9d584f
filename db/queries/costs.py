"""The cost of every strategy in calls, tokens and time, per question and in total."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from prmcal.db.metrics import COORDINATES, COSTS, PARTS_OF_COSTS
from prmcal.db.queries.leaderboard import leaderboard
from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.tables import Cell, Job, JobInput

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["costs"]


def costs(source: Source, **filters: Any) -> pd.DataFrame:
    """Return the costs of the cells of the scaling leaderboard, in the order of the grid.

    Parameters
    ----------
    source : Path or Connection
        The published copy.
    **filters
        The filters of :func:`prmcal.db.queries.leaderboard.measurements`.

    Returns
    -------
    DataFrame
        Columns cell_id, number, those of :data:`prmcal.db.metrics.COORDINATES`, accuracy and questions. Then samples
        (LLM calls), generated_tokens, prefill_tokens, prm_tokens and seconds: the mean per question, and the sum over
        all questions in a column whose name ends in ``_total``. Unknown costs are missing.

        A strategy that asks several LLMs has the tokens and the seconds of all of them.

        Seconds are single-worker seconds, measured on the generation and scoring jobs: their seconds per token,
        multiplied by the tokens of the cell. They do not include fitting the calibrator.
    """
    with connection_of(source) as connection:
        table = leaderboard(connection, "scaling", **filters)
        rates = _seconds_per_token(connection).reindex(table["cell_id"]).reset_index(drop=True)
    for name in ("samples", *COSTS, *PARTS_OF_COSTS):
        if name not in table:
            table[name] = float("nan")
    others = table["other_tokens"].fillna(0.0)
    seconds = (table["generated_tokens"] - others) * rates["generated"]
    seconds += (others * rates["generated_by_others"]).where(others > 0, 0.0)
    table["seconds"] = seconds + (table["prm_tokens"] * rates["scored"]).where(table["prm_tokens"] != 0, 0.0)
    amounts = ["samples", *COSTS, "seconds"]
    for name in amounts:
        table[f"{name}_total"] = table[name] * table["questions"]
    columns = [column for name in amounts for column in (name, f"{name}_total")]
    return table[["cell_id", "number", *COORDINATES, "accuracy", "questions", *columns]]


def _seconds_per_token(connection: sa.Connection) -> pd.DataFrame:
    """Return the seconds per generated token and per scored token of the jobs behind each scaling cell.

    Those of other LLMs than the cell's own are apart.
    """
    generating = sa.and_(Job.kind.in_(["rollout", "search"]), Job.llm == Cell.llm)
    asked = sa.and_(Job.kind == "rollout", Job.llm != Cell.llm)
    query = (
        sa.select(
            Cell.cell_id,
            sa.func.bool_or(Job.kind == "search").label("searched"),
            sa.func.sum(sa.case((generating, Job.generated_tokens), else_=0)).label("generated"),
            sa.func.sum(sa.case((generating, Job.seconds), else_=0.0)).label("rollout_seconds"),
            sa.func.sum(sa.case((asked, Job.generated_tokens), else_=0)).label("asked"),
            sa.func.sum(sa.case((asked, Job.seconds), else_=0.0)).label("asked_seconds"),
            sa.func.sum(sa.case((Job.kind == "score", Job.scored_tokens), else_=0)).label("scored"),
            sa.func.sum(sa.case((Job.kind == "score", Job.seconds), else_=0.0)).label("score_seconds"),
        )
        .join(JobInput, JobInput.job_key == Cell.job_key)
        .join(Job, Job.job_key == JobInput.input_key)
        .where(Cell.leaderboard == "scaling")
        .group_by(Cell.cell_id)
    )
    sums = frame(connection, query).set_index("cell_id").astype(float)
    # The seconds of a search include its scoring.
    rates = sums[[]].copy()
    rates["generated"] = sums["rollout_seconds"] / sums["generated"].where(sums["generated"] > 0)
    rates["generated_by_others"] = sums["asked_seconds"] / sums["asked"].where(sums["asked"] > 0)
    rates["scored"] = sums["score_seconds"] / sums["scored"].where(sums["scored"] > 0)
    rates.loc[sums["searched"] > 0, "scored"] = 0.0
    return rates
