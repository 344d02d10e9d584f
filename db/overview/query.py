"""The overview of a run, as data and as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.orm import aliased

from prmcal.db.metrics import MAIN_METRICS, RANKING_METRIC, Metrics
from prmcal.db.overview.gains import read_gains
from prmcal.db.overview.ranking import PLACE, mean_of_ends, mean_over_places, rank_by_means, relative_cut
from prmcal.db.overview.types import UNKNOWN, Gain, Overview, Quantity, Standing
from prmcal.db.queries.cells import cell_numbers, metrics, with_role
from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.statistics.paired import SIGNIFICANCE, standings
from prmcal.db.tables import Cell, Comparison, Dataset, Job, Plugin, QuestionResult, Result, Run

if TYPE_CHECKING:
    import pandas as pd


def overview(
    source: Source,
    *,
    llm: Sequence[str] | None = None,
    prm: Sequence[str] | None = None,
    dataset: Sequence[str] | None = None,
    tier: str | None = None,
) -> Overview:
    """Rank the calibrators of a grid, and measure what IAS gains with each.

    Parameters
    ----------
    source : Path or Connection
        The published copy.
    llm, prm, dataset : sequence of str, optional
        Keep only places with these names.
    tier : str, optional
        Keep only cells that were verified at this tier or at a higher one.
    """
    with connection_of(source) as connection:
        cells, described = _cells(connection, tier), metrics(connection)
        for name, values in (("llm", llm), ("prm", prm), ("dataset", dataset)):
            if values is not None:
                cells = cells[cells[name].isin(list(values)) | cells[name].isna()]
        calibration = cells[cells["leaderboard"] == "calibration"].drop(columns="leaderboard")
        baseline = next(iter(with_role(connection, "baseline")), None)
        results = _results(connection, calibration)
        compared = _comparisons(connection, calibration)
        gains = read_gains(connection, _scaling_places(cells))
        values = _question_values(connection, calibration)
        plugins = frame(
            connection, sa.select(Plugin.name, Plugin.citation).where(Plugin.kind == "calibrator")
        )
        fits = _fit_seconds(connection, llm, prm)
        tested = frame(connection, sa.select(Dataset.name, Dataset.questions).where(Dataset.split == "test"))
        status = connection.scalar(sa.select(Run.status).order_by(Run.started_at.desc()).limit(1))
    shown = _with_values(calibration, results, compared, baseline, described)
    done = shown[shown["status"] == "done"]
    citations = dict(zip(plugins["name"], plugins["citation"], strict=True))
    ranking = []
    for name, rank in rank_by_means(values, "calibrator").items():
        own = values[values["calibrator"] == name]
        base = values[values["calibrator"] == baseline]
        wins, ties, losses = _tests(name, compared)
        ranking.append(
            Standing(
                calibrator=name,
                citation=citations.get(name, ""),
                **vars(rank),
                wins=wins,
                ties=ties,
                losses=losses,
                brier=mean_over_places(own),
                cut=None if name == baseline or base.empty else relative_cut(own, base),
                errors=_errors(results, own),
                gain=gains.by_calibrator.get(name),
                outdated=bool(done.loc[done["calibrator"] == name, "outdated"].notna().all()),
                fit_seconds=fits.get(name),
            )
        )
    counts = cells["status"].value_counts()
    return Overview(
        places=len(done[PLACE].drop_duplicates()),
        questions={
            name: int(number)
            for name, number in zip(tested["name"], tested["questions"], strict=True)
            if name in set(calibration["dataset"])
        },
        counts={name: int(counts.get(name, 0)) for name in ("done", "failed", "pending")},
        running=status == "running",
        outdated=int((cells["outdated"].notna() & (cells["status"] == "done")).sum()),
        llms=tuple(calibration["llm"].unique()),
        prms=tuple(calibration["prm"].unique()),
        datasets=tuple(calibration["dataset"].unique()),
        baseline=baseline,
        before=_errors(results, _at_places_of_first(values, baseline, ranking)),
        target=gains.target,
        ranking=tuple(ranking),
        cells=shown,
        metrics=described,
    )


def _cells(connection: sa.Connection, tier: str | None) -> pd.DataFrame:
    numbers = cell_numbers()
    columns = [
        getattr(Cell, name) for name in ("cell_id", "leaderboard", *PLACE, "calibrator", "status", "outdated")
    ]
    query = sa.select(*columns, numbers.c.number).join(numbers, numbers.c.cell_id == Cell.cell_id)
    query = query.where(Cell.version == "")
    if tier is not None:
        query = query.where(Cell.at_tier(tier))
    return frame(connection, query.order_by(numbers.c.number))


def _scaling_places(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the places on the scaling leaderboard whose data set, LLM and PRM have calibration cells."""
    named = ["dataset", "llm", "prm"]
    calibration = cells.loc[cells["leaderboard"] == "calibration", named].drop_duplicates()
    return cells.loc[cells["leaderboard"] == "scaling", PLACE].drop_duplicates().merge(calibration, on=named)


def _results(connection: sa.Connection, cells: pd.DataFrame) -> pd.DataFrame:
    """Return the main metrics of the finished cells: cell_id, place, calibrator, metric, value, low and high."""
    query = sa.select(Result.cell_id, Result.metric, Result.value, Result.low, Result.high).where(
        Result.metric.in_((RANKING_METRIC, *MAIN_METRICS["calibration"])),
        Result.question_level.is_(None),
    )
    done = cells[cells["status"] == "done"]
    return done[["cell_id", *PLACE, "calibrator"]].merge(frame(connection, query), on="cell_id")


def _question_values(connection: sa.Connection, cells: pd.DataFrame) -> pd.DataFrame:
    """Return the ranking metric of each question of the finished cells, in an order that depends on the names only."""
    query = sa.select(QuestionResult.cell_id, QuestionResult.question_id, QuestionResult.value).where(
        QuestionResult.metric == RANKING_METRIC
    )
    done = cells.loc[cells["status"] == "done", ["cell_id", *PLACE, "calibrator"]]
    joined = done.merge(frame(connection, query), on="cell_id").drop(columns="cell_id")
    return joined.sort_values([*PLACE, "calibrator", "question_id"], ignore_index=True)


def _comparisons(connection: sa.Connection, cells: pd.DataFrame) -> pd.DataFrame:
    """Return the tests of the ranking metric between the calibrators of a place."""
    first, second = aliased(Cell), aliased(Cell)
    query = (
        sa.select(
            Comparison.metric,
            Comparison.cell_a,
            Comparison.cell_b,
            Comparison.difference,
            Comparison.p_adjusted,
            first.calibrator.label("first"),
            second.calibrator.label("second"),
        )
        .join(first, sa.and_(first.cell_id == Comparison.cell_a, first.status == "done"))
        .join(second, sa.and_(second.cell_id == Comparison.cell_b, second.status == "done"))
        .where(Comparison.leaderboard == "calibration", Comparison.metric == RANKING_METRIC)
    )
    found = frame(connection, query)
    return found[found["cell_a"].isin(cells["cell_id"]) & found["cell_b"].isin(cells["cell_id"])]


def _tests(calibrator: str, compared: pd.DataFrame) -> tuple[int, int, int]:
    """Count the tests that a calibrator wins, that find no significant difference, and that it loses."""
    tests = compared.dropna(subset=["p_adjusted"])
    first, second = tests["first"] == calibrator, tests["second"] == calibrator
    own = tests[first | second]
    real = own["p_adjusted"] < SIGNIFICANCE
    lower = (own["difference"] < 0) == (own["first"] == calibrator)
    return int((real & lower).sum()), int((~real).sum()), int((real & ~lower).sum())


def _at_places_of_first(
    values: pd.DataFrame, baseline: str | None, ranking: Sequence[Standing]
) -> pd.DataFrame:
    """Return the values of the baseline at the places of the first calibrator."""
    first = values[values["calibrator"] == (ranking[0].calibrator if ranking else None)]
    return values[values["calibrator"] == baseline].merge(first[PLACE].drop_duplicates(), on=PLACE)


def _errors(results: pd.DataFrame, ranked: pd.DataFrame) -> dict[str, Quantity]:
    """Average the other main metrics of a calibrator over the places where it is ranked."""
    own = results.merge(ranked[[*PLACE, "calibrator"]].drop_duplicates(), on=[*PLACE, "calibrator"])
    return {
        metric: mean_of_ends(own[own["metric"] == metric])
        for metric in MAIN_METRICS["calibration"]
        if metric != RANKING_METRIC and (own["metric"] == metric).any()
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
    """Return the ranking with one row per calibrator, the best first.

    Returns
    -------
    DataFrame
        Columns calibrator, rank, rank_low, rank_high, mean_rank, places, lowest, wins, ties, losses, brier, cut, the
        other main metrics of the calibration leaderboard, ias_accuracy, ias_samples, ias_share, ias_to_best_of_n,
        ias_to_equal_cost, fit_seconds and citation: see :class:`prmcal.db.overview.types.Standing` and
        :class:`prmcal.db.overview.types.Gain`. A ``Quantity`` has two columns more, ``<column>_low`` and
        ``<column>_high``. What was not measured is missing.
    """
    import pandas as pd

    return pd.DataFrame([_row(each) for each in found.ranking])


def _row(standing: Standing) -> dict[str, Any]:
    others = [name for name in MAIN_METRICS["calibration"] if name != RANKING_METRIC]
    names = ("calibrator", "rank", "rank_low", "rank_high")
    counts = ("places", "lowest", "wins", "ties", "losses")
    return {
        **{name: getattr(standing, name) for name in names},
        **standing.mean_rank.columns("mean_rank"),
        **{name: getattr(standing, name) for name in counts},
        **standing.brier.columns("brier"),
        **(standing.cut or UNKNOWN).columns("cut"),
        **{
            key: end
            for name in others
            for key, end in (standing.errors.get(name) or UNKNOWN).columns(name).items()
        },
        **_gain(standing.gain),
        "fit_seconds": float("nan") if standing.fit_seconds is None else standing.fit_seconds,
        "citation": standing.citation,
    }


def _gain(gain: Gain | None) -> dict[str, float]:
    parts = ("accuracy", "samples", "share", "to_best_of_n", "to_equal_cost")
    return {
        key: end
        for part in parts
        for key, end in (getattr(gain, part, None) or UNKNOWN).columns(f"ias_{part}").items()
    }


def ranking_order(source: Source) -> list[str]:
    """Return the calibrators of a grid as :func:`prmcal.db.overview.query.overview` ranks them, the best first.

    Parameters
    ----------
    source : Path or Connection
        The published copy.

    Returns
    -------
    list of str
        Empty if no place has two calibrators with results.
    """
    places = [getattr(Cell, name) for name in PLACE]
    query = (
        sa.select(
            *places,
            Cell.calibrator,
            sa.func.sum(QuestionResult.value).label("total"),
            sa.func.count(QuestionResult.value).label("questions"),
        )
        .join(QuestionResult, QuestionResult.cell_id == Cell.cell_id)
        .where(
            Cell.leaderboard == "calibration",
            Cell.status == "done",
            Cell.version == "",
            QuestionResult.metric == RANKING_METRIC,
        )
        .group_by(*places, Cell.calibrator)
    )
    with connection_of(source) as connection:
        found = frame(connection, query)
    if found.empty:
        return []
    sums = found.groupby("calibrator")[["total", "questions"]].sum()
    overall = sums["total"] / sums["questions"]
    found["mean"] = found["total"] / found["questions"]
    several = found[found.groupby(PLACE)["calibrator"].transform("size") > 1]
    ranks = several.groupby(PLACE)["mean"].rank(method="average").groupby(several["calibrator"]).mean()
    return sorted(ranks.index, key=lambda name: (ranks[name], overall[name], name))
