"""The overview of a run, as data and as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from prmcal.db.metrics import MAIN_METRICS, PLACE, RANKING_METRIC, Metrics
from prmcal.db.overview.ranking import mean_of_ends, mean_over_places, rank_by_means, relative_cut
from prmcal.db.overview.reading import (
    citations,
    counted_tests,
    question_values,
    read_gains,
    results,
    status_counts,
    tested_questions,
    tests_between,
)
from prmcal.db.overview.types import UNKNOWN, Outcomes, Overview, Quantity, Standing, flat
from prmcal.db.queries.cells import kept, metrics, numbered_cells, with_role
from prmcal.db.queries.health import health
from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.statistics.paired import standings
from prmcal.db.tables import Cell, Job, Run

if TYPE_CHECKING:
    import pandas as pd


_OTHERS = [name for name in MAIN_METRICS["calibration"] if name != RANKING_METRIC]
_FIRST_COLUMNS = ("calibrator", "rank", "rank_low", "rank_high", "mean_rank", "places", "lowest")


def overview(
    source: Source,
    *,
    llm: Sequence[str] | None = None,
    prm: Sequence[str] | None = None,
    dataset: Sequence[str] | None = None,
    tier: str | None = None,
) -> Overview:
    """Rank the calibrators of a grid, and measure what IAS gains with each.

    `llm`, `prm` and `dataset` keep only places with these names, and `tier` only cells that were verified at this tier
    or at a higher one.
    """
    with connection_of(source) as connection:
        cells = kept(_cells(connection, tier), llm=llm, prm=prm, dataset=dataset)
        described, baseline = metrics(connection), next(iter(with_role(connection, "baseline")), None)
        calibration = cells[cells["leaderboard"] == "calibration"].drop(columns="leaderboard")
        finished = calibration[calibration["status"] == "done"]
        placed = finished[["cell_id", *PLACE, "calibrator"]]
        found = results(connection, placed, [RANKING_METRIC, *_OTHERS])
        values = _ranking_values(connection, placed)
        tests = tests_between(connection, placed, RANKING_METRIC, "calibrator")
        target, gains = read_gains(connection, _scaling_places(cells))
        published = citations(connection, "calibrator")
        fits = _fit_seconds(connection, llm, prm)
        questions = tested_questions(connection, calibration)
        findings = health(connection, llm=llm, prm=prm, dataset=dataset)
        status = connection.scalar(sa.select(Run.status).order_by(Run.started_at.desc()).limit(1))
    shown = _with_values(calibration, found, tests, baseline, described)
    counts = counted_tests(tests, lower_wins=True)
    base = values[values["calibrator"] == baseline]
    ranking = []
    for name, rank in rank_by_means(values, "calibrator").items():
        own = values[values["calibrator"] == name]
        ranking.append(
            Standing(
                **vars(rank),
                outcomes=counts.get(name, Outcomes()),
                calibrator=name,
                citation=published.get(name, ""),
                brier=mean_over_places(own),
                cut=None if name == baseline or base.empty else relative_cut(own, base),
                errors=_errors(found, own),
                gain=gains.get(name),
                outdated=bool(finished.loc[finished["calibrator"] == name, "outdated"].notna().all()),
                fit_seconds=fits.get(name),
            )
        )
    # The baseline at the places of the first calibrator.
    first = values[values["calibrator"] == (ranking[0].calibrator if ranking else None)]
    before = base.merge(first[PLACE].drop_duplicates(), on=PLACE)
    return Overview(
        places=len(finished[PLACE].drop_duplicates()),
        questions=questions,
        counts=status_counts(cells),
        running=status == "running",
        outdated=int((cells["outdated"].notna() & (cells["status"] == "done")).sum()),
        llms=tuple(calibration["llm"].unique()),
        prms=tuple(calibration["prm"].unique()),
        datasets=tuple(calibration["dataset"].unique()),
        baseline=baseline,
        before=_errors(found, before),
        target=target,
        ranking=tuple(ranking),
        cells=shown,
        metrics=described,
        health=findings,
    )


def ranked_calibrators(source: Source) -> list[str]:
    """Return the calibrators in the order of :func:`overview`, which takes much longer."""
    with connection_of(source) as connection:
        cells = _cells(connection, None)
        finished = cells[(cells["leaderboard"] == "calibration") & (cells["status"] == "done")]
        values = _ranking_values(connection, finished[["cell_id", *PLACE, "calibrator"]])
    return list(rank_by_means(values, "calibrator"))


def _ranking_values(connection: sa.Connection, placed: pd.DataFrame) -> pd.DataFrame:
    return question_values(connection, placed, [RANKING_METRIC], [*PLACE, "calibrator"])


def _cells(connection: sa.Connection, tier: str | None) -> pd.DataFrame:
    names = ("leaderboard", *PLACE, "calibrator", "status", "outdated")
    query = numbered_cells(*names).where(Cell.version == "")
    return frame(connection, query if tier is None else query.where(Cell.at_tier(tier)))


def _scaling_places(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the places on the scaling leaderboard whose data set, LLM and PRM have calibration cells."""
    named = ["dataset", "llm", "prm"]
    calibration = cells.loc[cells["leaderboard"] == "calibration", named].drop_duplicates()
    return cells.loc[cells["leaderboard"] == "scaling", PLACE].drop_duplicates().merge(calibration, on=named)


def _errors(results: pd.DataFrame, ranked: pd.DataFrame) -> dict[str, Quantity]:
    """Average the other main metrics of a calibrator over the places where it is ranked."""
    own = results.merge(ranked[[*PLACE, "calibrator"]].drop_duplicates(), on=[*PLACE, "calibrator"])
    return {
        metric: mean_of_ends(own[own["metric"] == metric])
        for metric in _OTHERS
        if (own["metric"] == metric).any()
    }


def _with_values(
    cells: pd.DataFrame,
    results: pd.DataFrame,
    compared: pd.DataFrame,
    baseline: str | None,
    described: Metrics,
) -> pd.DataFrame:
    measured = results[results["metric"] == RANKING_METRIC].reset_index(drop=True)
    better = {RANKING_METRIC: described.better(RANKING_METRIC)}
    measured["standing"] = standings(measured, compared, better)["standing"]
    columns = ["cell_id", "value", "low", "high", "standing"]
    shown = cells.merge(measured[columns], on="cell_id", how="left")
    base = shown[shown["calibrator"] == baseline].set_index(PLACE)["value"]
    of_place = shown.merge(base.rename("baseline"), left_on=PLACE, right_index=True, how="left")["baseline"]
    return shown.assign(ratio=shown["value"] / of_place.to_numpy())


def _fit_seconds(
    connection: sa.Connection, llm: Sequence[str] | None, prm: Sequence[str] | None
) -> dict[str, float]:
    """Return the mean seconds of a fit of each calibrator."""
    conditions: list[Any] = [Job.kind == "fit", Job.status == "done", Job.calibrator.is_not(None)]
    conditions += [
        column.in_(list(names)) for column, names in ((Job.llm, llm), (Job.prm, prm)) if names is not None
    ]
    # On a merged leaderboard, a fit can have a row for each name in the grids. Its seed follows from its key.
    found = frame(connection, sa.select(Job.calibrator, Job.seed, Job.seconds).where(*conditions).distinct())
    # The sum is exact. That of the database depends on the order of its rows.
    return {str(name): math.fsum(own) / len(own) for name, own in found.groupby("calibrator")["seconds"]}


def ranking_frame(found: Overview) -> pd.DataFrame:
    """Return the ranking with one row per calibrator, the best first. What was not measured is missing.

    The columns are calibrator, rank, rank_low, rank_high, mean_rank, places, lowest, wins, ties, losses, brier, cut,
    the other main metrics of the calibration leaderboard, ias_accuracy, ias_samples, ias_share, ias_to_best_of_n,
    ias_to_equal_cost, fit_seconds and citation: see :class:`prmcal.db.overview.types.Standing` and
    :class:`prmcal.db.overview.types.Gain`. A ``Quantity`` has two columns more, ``<column>_low`` and ``<column>_high``.
    """
    import pandas as pd

    return pd.DataFrame([_row(each) for each in found.ranking])


def _row(standing: Standing) -> dict[str, Any]:
    parts = ("accuracy", "samples", "share", "to_best_of_n", "to_equal_cost")
    values = {name: getattr(standing, name) for name in _FIRST_COLUMNS}
    values |= {**vars(standing.outcomes), "brier": standing.brier, "cut": standing.cut or UNKNOWN}
    values |= {name: standing.errors.get(name, UNKNOWN) for name in _OTHERS}
    values |= {f"ias_{part}": getattr(standing.gain, part, None) or UNKNOWN for part in parts}
    seconds = math.nan if standing.fit_seconds is None else standing.fit_seconds
    return flat({**values, "fit_seconds": seconds, "citation": standing.citation})
