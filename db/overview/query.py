"""The overview of a run, and the league of its strategies at equal cost, as data and as tables."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Unpack

import numpy as np
import pandas as pd
import sqlalchemy as sa

from prmcal.db.metrics import LEAGUE_BUDGETS, OTHER_METRICS, RANKING_METRIC, SETTING, Metrics, accuracy_at_name
from prmcal.db.overview import ranking, reading, types
from prmcal.db.queries.cells import Names, SettingNames, metrics, numbered_cells, with_names, with_role
from prmcal.db.queries.health import health
from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.statistics.intervals import UNKNOWN, bounded_interval, error_interval, gain_interval
from prmcal.db.statistics.paired import standings
from prmcal.db.tables import LAST_WRITTEN, Cell, JobRow, LeaguePoint, RunRow

_FIRST_COLUMNS = ("calibrator", "rank", "rank_low", "rank_high", "mean_rank", "settings", "lowest")
_AT = {accuracy_at_name(budget): budget for budget in LEAGUE_BUDGETS}
_BY_QUESTION = ("area", "area_gain", *_AT)
_RANKING = "area"


def overview(source: Source, **names: Unpack[SettingNames]) -> types.Overview:
    """Rank the calibrators of a grid, and measure the gain of IAS with each.

    `llm`, `prm` and `dataset` keep only settings with these names.
    """
    with connection_of(source) as connection:
        cells = with_names(_cells(connection), names)
        descriptions, baseline = metrics(connection), next(iter(with_role(connection, "baseline")), None)
        calibration = cells[cells["leaderboard"] == "calibration"].drop(columns="leaderboard")
        finished = calibration[calibration["status"] == "done"]
        finished_cells = finished[["cell_id", *SETTING, "calibrator"]]
        results = reading.results(connection, finished_cells, [RANKING_METRIC, *OTHER_METRICS])
        values = _ranking_values(connection, finished_cells)
        tests = reading.tests_between(connection, finished_cells, RANKING_METRIC, "calibrator")
        scaling = cells.loc[cells["leaderboard"] == "scaling", SETTING].drop_duplicates()
        with_calibration = scaling.merge(calibration[SETTING].drop_duplicates(), on=SETTING)
        gains = reading.read_gains(connection, with_calibration)
        citations = reading.citations(connection, "calibrator")
        fits = _fit_seconds(connection, names)
        questions = reading.tested_questions(connection, calibration)
        findings = health(connection, **names)
        savings = _saving(connection, names)
        status = connection.scalar(sa.select(RunRow.status).order_by(LAST_WRITTEN).limit(1))
    with_values = _with_values(calibration, results, tests, baseline, descriptions)
    counts = reading.counted_tests(tests, lower_wins=True)
    baseline_values = values[values["calibrator"] == baseline]
    by_calibrator = dict(iter(_of_settings(results, values).groupby("calibrator", observed=True)))
    ranked, briers = [], ranking.means_over_settings(values, "calibrator", error_interval)
    for name, rank in ranking.rank_by_means(values, "calibrator").items():
        calibrator_values = values[values["calibrator"] == name]
        unlike = name != baseline and not baseline_values.empty
        ranked.append(
            types.Standing(
                **vars(rank),
                outcomes=counts.get(name, types.Outcomes()),
                calibrator=name,
                citation=citations.get(name, ""),
                brier=briers[name],
                brier_reduction=ranking.relative_reduction(calibrator_values, baseline_values) if unlike else None,
                errors=ranking.main_errors(by_calibrator.get(name, results.head(0))),
                gain=gains.get(name),
                fit_seconds=fits.get(name),
            )
        )
    # The baseline at the settings of the first calibrator.
    first_values = values[values["calibrator"] == (ranked[0].calibrator if ranked else None)]
    before = _of_settings(results, baseline_values.merge(first_values[SETTING].drop_duplicates(), on=SETTING))
    return types.Overview(
        settings=len(finished[SETTING].drop_duplicates()),
        questions=questions,
        counts=reading.status_counts(cells),
        running=status == "running",
        baseline=baseline,
        before=ranking.main_errors(before),
        repair=ranking.reduction_of_chosen(values, baseline),
        ranking=tuple(ranked),
        cells=with_values,
        metrics=descriptions,
        health=findings,
        saving=savings,
    )


def ranked_calibrators(source: Source) -> list[str]:
    """Return the calibrators in the order of :func:`overview`, which takes much longer."""
    with connection_of(source) as connection:
        cells = _cells(connection)
        finished = cells[(cells["leaderboard"] == "calibration") & (cells["status"] == "done")]
        values = _ranking_values(connection, finished[["cell_id", *SETTING, "calibrator"]])
    return list(ranking.rank_by_means(values, "calibrator"))


def _ranking_values(connection: sa.Connection, cells: pd.DataFrame) -> pd.DataFrame:
    return reading.question_values(connection, cells, [RANKING_METRIC], [*SETTING, "calibrator"])


def _cells(connection: sa.Connection) -> pd.DataFrame:
    return frame(connection, numbered_cells("leaderboard", *SETTING, "calibrator", "status"))


def _of_settings(results: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    return results.merge(cells[[*SETTING, "calibrator"]].drop_duplicates(), on=[*SETTING, "calibrator"])


def _with_values(
    cells: pd.DataFrame, results: pd.DataFrame, tests: pd.DataFrame, baseline: str | None, descriptions: Metrics
) -> pd.DataFrame:
    ranked_results = results[results["metric"] == RANKING_METRIC].reset_index(drop=True)
    ranked_results["standing"] = standings(ranked_results, tests, descriptions)
    columns = ["cell_id", "value", "low", "high", "standing"]
    with_values = cells.merge(ranked_results[columns], on="cell_id", how="left")
    baseline_values = with_values[with_values["calibrator"] == baseline].set_index(SETTING)["value"]
    compared = with_values.merge(baseline_values.rename("baseline"), left_on=SETTING, right_index=True, how="left")
    return with_values.assign(ratio=with_values["value"] / compared["baseline"].to_numpy())


def _fit_seconds(connection: sa.Connection, names: SettingNames) -> dict[str, float]:
    # A fit can have a row for each name in the grid.
    fits = sa.select(JobRow.llm, JobRow.prm, JobRow.calibrator, JobRow.job_key, JobRow.seconds).where(
        JobRow.kind == "fit", JobRow.status == "done", JobRow.calibrator.is_not(None)
    )
    rows = with_names(frame(connection, fits), {**names, "dataset": None}).drop_duplicates(["calibrator", "job_key"])
    # The sum is exact. That of the database depends on the order of its rows.
    return {str(name): math.fsum(times) / len(times) for name, times in rows.groupby("calibrator")["seconds"]}


def ranking_frame(ranked: types.Overview) -> pd.DataFrame:
    """Return the ranking with one row per calibrator, the best first. What was not measured is missing.

    The columns are calibrator, rank, rank_low, rank_high, mean_rank, settings, lowest, wins, ties, losses, brier,
    brier_reduction, the other main metrics of the calibration leaderboard, ias_accuracy, ias_samples, ias_share,
    ias_to_best_of_n, ias_to_equal_cost, fit_seconds and citation: see :class:`prmcal.db.overview.types.Standing` and
    :class:`prmcal.db.overview.types.Gain`. An ``Estimate`` has also ``<column>_low`` and ``<column>_high``.
    """
    return pd.DataFrame([_row(standing) for standing in ranked.ranking])


def _row(standing: types.Standing) -> dict[str, Any]:
    ias_names = ("accuracy", "samples", "share", "to_best_of_n", "to_equal_cost")
    values = {name: getattr(standing, name) for name in _FIRST_COLUMNS}
    values |= {**vars(standing.outcomes), "brier": standing.brier}
    values |= {"brier_reduction": standing.brier_reduction or UNKNOWN}
    values |= {name: standing.errors.get(name, UNKNOWN) for name in OTHER_METRICS}
    values |= {f"ias_{ias_name}": getattr(standing.gain, ias_name, None) or UNKNOWN for ias_name in ias_names}
    seconds = math.nan if standing.fit_seconds is None else standing.fit_seconds
    return types.flat({**values, "fit_seconds": seconds, "citation": standing.citation})


def league(source: Source, **names: Unpack[Names]) -> types.League:
    """Rank the strategies of a grid by their accuracy over budgets from 1 sample to N.

    `llm`, `prm` and `dataset` are as for :func:`prmcal.db.overview.query.overview`. `calibrator` and `strategy` keep
    only entries with these names. Strategies without a calibrator stay.
    """
    with connection_of(source) as connection:
        cells, entries = _league_cells(connection, names)
        findings = health(connection, **names)
        done = cells[cells["status"] == "done"]
        done_cells = done[["cell_id", *SETTING, "strategy", "entry"]]
        values = reading.question_values(connection, done_cells, _BY_QUESTION, ["cell_id", "metric"])
        savings = reading.results(connection, done_cells, ["saving_95"])
        tests = reading.tests_between(connection, done_cells, _RANKING, "entry")
        largest = sa.select(LeaguePoint.cell_id, sa.func.max(LeaguePoint.order_error).label("error"))
        errors = frame(connection, largest.group_by(LeaguePoint.cell_id)).set_index("cell_id")["error"]
        references, fixed = (with_role(connection, role) for role in ("reference", "fixed"))
        by_n = reading.sample_accuracies(connection, done_cells)
        citations = reading.citations(connection, "strategy")
        questions = reading.tested_questions(connection, cells)
    competing = values[(values["metric"] == _RANKING) & ~values["strategy"].isin(references)]
    # Lower is better for a rank.
    ranks = ranking.rank_by_means(competing.assign(value=-competing["value"]), "entry")
    gains = ranking.means_over_settings(values[values["metric"] == "area_gain"], "entry", gain_interval)
    accuracies = {
        budget: ranking.means_over_settings(values[values["metric"] == name], "entry", bounded_interval)
        for name, budget in _AT.items()
    }
    differences = ranking.over_best_fixed(_rivals(values, entries, fixed, by_n))
    over_fixed = ranking.means_over_settings(differences, "entry", gain_interval)
    reference_numbers = [number for number, entry in enumerate(entries) if entry.strategy in references]
    counts = reading.counted_tests(tests, lower_wins=False, without=reference_numbers)
    rows = []
    for number, entry_cells in done.groupby("entry", sort=False):
        entry = entries[number]
        rows.append(
            types.LeagueRow(
                outcomes=counts.get(number, types.Outcomes()),
                entry=entry,
                citation=citations.get(entry.strategy, ""),
                rank=ranks.get(number),
                gain=gains[number],
                accuracies={budget: means[number] for budget, means in accuracies.items() if number in means},
                over_fixed=over_fixed.get(number),
                saving=ranking.mean_of_ends(savings[savings["entry"] == number]),
                order_error=float(errors.reindex(entry_cells["cell_id"]).max()),
                settings=len(entry_cells),
            )
        )
    rows.sort(key=lambda row: (row.rank.rank if row.rank else np.inf, -row.gain.value, row.entry.name))
    return types.League(
        settings=len(done[SETTING].drop_duplicates()),
        questions=questions,
        counts=reading.status_counts(cells),
        rows=tuple(rows),
        health=findings,
    )


def _rivals(
    values: pd.DataFrame, entries: list[types.Entry], fixed: Sequence[str], by_n: pd.DataFrame
) -> Iterator[ranking.FixedRivals]:
    rows = values[values["metric"].isin(_AT)]
    fixed_numbers = [number for number, entry in enumerate(entries) if entry.strategy in fixed]
    return ranking.fixed_rivals(rows.assign(budget=rows["metric"].map(_AT)), fixed_numbers, by_n[by_n["samples"] == 1])


def _saving(connection: sa.Connection, names: Mapping[str, Any]) -> types.Saving | None:
    cells, entries = _league_cells(connection, names)
    done_cells = cells.loc[cells["status"] == "done", ["cell_id", *SETTING, "entry"]]
    if done_cells.empty:
        return None
    values = reading.question_values(connection, done_cells, list(_AT), ["cell_id", "metric"])
    references, fixed = (with_role(connection, role) for role in ("reference", "fixed"))
    rivals = list(_rivals(values, entries, fixed, reading.sample_accuracies(connection, done_cells)))
    excluded, raw = {*references, *fixed}, with_role(connection, "baseline")
    # A rule on the rewards as they are shows nothing of what calibration buys.
    rules = [
        number for number, entry in enumerate(entries) if entry.strategy not in excluded and entry.calibrator not in raw
    ]
    return ranking.saving(rivals, rules, entries)


def league_points(source: Source, dataset: str, llm: str, prm: str) -> pd.DataFrame:
    """Return the curves of all strategies at a setting.

    The columns are cell_id, strategy, calibrator, level, point, samples and accuracy with their intervals
    (``samples_low`` and so on), order_error and questions.
    """
    columns = [column for column in LeaguePoint.__table__.columns if column.name != "cell_id"]
    query = sa.select(*Cell.columns("cell_id", "strategy", "calibrator", "level"), *columns)
    query = query.join(LeaguePoint, LeaguePoint.cell_id == Cell.cell_id)
    query = query.where(Cell.leaderboard == "league", Cell.status == "done")
    query = query.where(Cell.dataset == dataset, Cell.llm == llm, Cell.prm == prm)
    return frame(source, query.order_by(Cell.cell_id, LeaguePoint.point))


def _league_cells(connection: sa.Connection, names: Mapping[str, Any]) -> tuple[pd.DataFrame, list[types.Entry]]:
    """Return the cells of the league with these names, and the entries in their order.

    The cells have the columns cell_id, dataset, llm, prm, strategy, calibrator, level, status, and entry, which is the
    number of the entry.
    """
    columns = ("cell_id", *SETTING, "strategy", "calibrator", "level", "status")
    query = sa.select(*Cell.columns(*columns)).where(Cell.leaderboard == "league")
    query = query.order_by(Cell.cell_id)
    cells = with_names(frame(connection, query), names)
    row_entries = [types.Entry.of(row.strategy, row.calibrator, row.level) for row in cells.itertuples()]
    entries = sorted(set(row_entries), key=lambda entry: (entry.strategy, entry.calibrator, entry.level or 0.0))
    numbers = {entry: number for number, entry in enumerate(entries)}
    return cells.assign(entry=np.array([numbers[entry] for entry in row_entries], dtype=np.int64)), entries


def league_frame(ranked: types.League) -> pd.DataFrame:
    """Return the league with one row per entry, the best first. A reference has no rank.

    The columns are strategy, calibrator, level, rank, rank_low, rank_high, mean_rank, settings, wins, ties, losses,
    area_gain, ``accuracy_at_<n>``, over_fixed, saving_95, order_error and citation: see
    :class:`prmcal.db.overview.types.LeagueRow`. An ``Estimate`` has two columns more, ``<column>_low`` and
    ``<column>_high``.
    """
    return pd.DataFrame([_league_row(row) for row in ranked.rows])


def _league_row(row: types.LeagueRow) -> dict[str, Any]:
    ranks = ("rank", "rank_low", "rank_high")
    return types.flat(
        {
            "strategy": row.entry.strategy,
            "calibrator": row.entry.calibrator or None,
            "level": row.entry.level,
            **{name: getattr(row.rank, name, None) for name in ranks},
            "mean_rank": row.rank.mean_rank if row.rank else UNKNOWN,
            "settings": row.settings,
            **vars(row.outcomes),
            "area_gain": row.gain,
            **{accuracy_at_name(budget): value for budget, value in row.accuracies.items()},
            "over_fixed": row.over_fixed or UNKNOWN,
            "saving_95": row.saving,
            "order_error": row.order_error,
            "citation": row.citation,
        }
    )
