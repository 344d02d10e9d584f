"""The leaderboard: competitors as rows, and settings as columns.

Calibrators compete at each data set, LLM and PRM. PRMs and LLMs compete with the scores of one calibrator, by default
the uncalibrated scores. Strategies compete at equal cost. All are ranked in the same way
(:func:`prmcal.db.overview.ranking.rank_by_means`), and a mean over settings counts each setting alike.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Unpack, get_args

import pandas as pd

from prmcal.db.metrics import RANKING_METRIC, SETTING
from prmcal.db.overview import ranking, reading
from prmcal.db.overview.query import league, overview
from prmcal.db.overview.types import Entry, Outcomes, Overview, Rank, levels_of
from prmcal.db.queries.cells import Names, with_role
from prmcal.db.queries.leaderboard import leaderboard
from prmcal.db.reader import Source, connection_of
from prmcal.db.statistics.intervals import UNKNOWN, Estimate, error_interval

Kind = Literal["calibrator", "prm", "llm", "strategy"]
"""What the rows are."""
KINDS: tuple[Kind, ...] = get_args(Kind)

_POINTS = 0.1  # a gain that is as dark as no error at all


@dataclass(frozen=True)
class CellEstimate(Estimate):
    """The value of a row at a setting."""

    cell_id: str
    status: str
    standing: str | None
    """"best", "tied" or "worse" by paired tests; None without tests."""
    ratio: float
    """It is below 1 if the competitor is better than the reference of the setting, and NaN without a reference."""


@dataclass(frozen=True)
class Competitor:
    """A competitor over all settings."""

    name: str
    rank: Rank | None
    """None for a row that does not compete."""
    mean: Estimate | None
    """The drawn mean: the share of the Brier score that a calibrator removes, the mean Brier score of a PRM or an LLM,
    or the gain of a strategy over a fixed n of equal cost. None for the reference."""
    outcomes: Outcomes | None
    """Wins, ties and losses of paired tests; None without tests."""
    cells: Mapping[tuple[str, ...], CellEstimate]
    """By setting."""


@dataclass(frozen=True, eq=False)
class Competition:
    """A leaderboard."""

    kind: Kind
    kinds: tuple[str, ...]
    """The kinds of the names of a setting."""
    settings: tuple[tuple[str, ...], ...]
    """The names of each setting, in the order of the grid."""
    rows: tuple[Competitor, ...]
    """The best first."""
    reference: Competitor | None
    """The uncalibrated scores, the reference of the others; None if the rows are no calibrators."""
    scores: str | None = None
    """The calibrator whose scores PRMs or LLMs compete with."""

    @property
    def leaders(self) -> tuple[Competitor, ...]:
        """The rows that may each be the best. A single one is clearly the best."""
        rows = self.rows if self.reference is None else (*self.rows, self.reference)
        return tuple(row for row in rows if row.rank is not None and row.rank.rank_low == 1)


def competition(source: Source, kind: Kind = "calibrator", **names: Unpack[Names]) -> Competition:
    """Return the leaderboard of a run.

    `llm`, `prm` and `dataset` keep only settings with these names, and `calibrator` and `strategy` rows.
    Settings without a name of a kind stay.
    """
    if kind == "calibrator":
        ranked = overview(source, llm=names.get("llm"), prm=names.get("prm"), dataset=names.get("dataset"))
        return of_calibrators(ranked, names.get("calibrator"))
    return _strategies(source, names) if kind == "strategy" else _models(source, kind, names)


def of_calibrators(ranked: Overview, names: Sequence[str] | None = None) -> Competition:
    """Return the leaderboard of all calibrators, or of calibrators with these `names`, from their ranking."""
    cells = _cells(ranked.cells, "calibrator", SETTING)
    rows = [
        Competitor(row.calibrator, row, row.brier_reduction, row.outcomes, cells.get(row.calibrator, {}))
        for row in ranked.ranking
        if names is None or row.calibrator in (*names, ranked.baseline)
    ]
    ranked_names = {row.name for row in rows}
    # A calibrator of which nothing was measured yet, or without a rival.
    rows += [Competitor(name, None, None, None, cells[name]) for name in cells if not (names or name in ranked_names)]
    reference = next((row for row in rows if row.name == ranked.baseline), None)
    rivals = tuple(row for row in rows if row is not reference)
    return Competition("calibrator", tuple(SETTING), _settings(ranked.cells, SETTING), rivals, reference)


def before_and_after(ranked: Overview) -> dict[tuple[str, ...], dict[str, str]]:
    """Return two cells of each setting, by calibrator: the uncalibrated scores, and the first of the ranking there."""
    order = [ranked.baseline, *(row.calibrator for row in ranked.ranking if row.calibrator != ranked.baseline)]
    done = ranked.cells[ranked.cells["status"] == "done"]
    return {
        names: cells.set_index("calibrator")["cell_id"].reindex(order).dropna().head(2).to_dict()
        for names, cells in done.groupby(SETTING, sort=False)
    }


def _models(source: Source, kind: Kind, names: Names) -> Competition:
    """Rank PRMs or LLMs by the noise-corrected Brier score. A setting has the names of all other plugins."""
    kinds = [name for name in SETTING if name != kind]
    with connection_of(source) as connection:
        scores = next(iter(names.get("calibrator") or with_role(connection, "baseline")), None)
        filters: Any = {**names, "calibrator": None if scores is None else [scores]}
        cells = leaderboard(connection, "calibration", **filters)
        done = cells[cells["status"] == "done"]
        done_cells = done[["cell_id", *SETTING, "calibrator"]]
        values = reading.question_values(connection, done_cells, [RANKING_METRIC], [*SETTING, "calibrator"])
    # The names of the rows and of the calibrator change their roles, so that the others compete at a setting.
    swapped = values.assign(**{kind: values["calibrator"], "calibrator": values[kind].astype(str)})
    ranks = ranking.rank_by_means(swapped, "calibrator")
    means = ranking.means_over_settings(swapped, "calibrator", error_interval) if len(values) else {}
    columns = {RANKING_METRIC: "value", f"{RANKING_METRIC}_low": "low", f"{RANKING_METRIC}_high": "high"}
    with_values = cells.rename(columns=columns).assign(standing=None)
    with_values["ratio"] = with_values["value"] / with_values.groupby(kinds)["value"].transform("mean")
    by_name = _cells(with_values, kind, kinds)
    ordered = [*ranks, *(name for name in by_name if name not in ranks)]
    rows = tuple(Competitor(name, ranks.get(name), means.get(name), None, by_name.get(name, {})) for name in ordered)
    return Competition(kind, tuple(kinds), _settings(cells, kinds), rows, None, scores)


def _strategies(source: Source, names: Names) -> Competition:
    ranked, cells = league(source, **names), leaderboard(source, "league", **names)
    levels = levels_of(row.entry for row in ranked.rows)
    by_entry: dict[Any, Any] = {}
    if len(ranked.rows):
        columns = {"area_gain": "value", "area_gain_low": "low", "area_gain_high": "high"}
        standing = cells["area_gain_standing"]
        with_values = cells.rename(columns=columns).assign(standing=standing, ratio=1 - cells["area_gain"] / _POINTS)
        with_values["name"] = [Entry.of(row.strategy, row.calibrator, row.level) for row in cells.itertuples()]
        by_entry = _cells(with_values, "name", SETTING)
    rows = []
    for row in ranked.rows:
        name, cells_here = f"{row.entry.name}{levels[row.entry]}", by_entry.get(row.entry, {})
        rows.append(Competitor(name, row.rank, row.gain, row.outcomes, cells_here))
    return Competition("strategy", tuple(SETTING), _settings(cells, SETTING), tuple(rows), None)


def _settings(cells: pd.DataFrame, kinds: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    return tuple(dict.fromkeys(_names(row, kinds) for row in cells.to_dict("records")))


def _names(row: Mapping[Any, Any], kinds: Sequence[str]) -> tuple[str, ...]:
    return tuple(row[kind] if isinstance(row[kind], str) else "" for kind in kinds)


def _cells(cells: pd.DataFrame, name: str, kinds: Sequence[str]) -> dict[Any, dict[tuple[str, ...], CellEstimate]]:
    numbers = ("value", "low", "high", "ratio")
    by_name: dict[Any, dict[tuple[str, ...], CellEstimate]] = {}
    for row in cells.to_dict("records"):
        values = {key: math.nan if row[key] is None else float(row[key]) for key in numbers}
        standing = row["standing"] if isinstance(row["standing"], str) else None
        cell = CellEstimate(cell_id=row["cell_id"], status=row["status"], standing=standing, **values)
        by_name.setdefault(row[name], {})[_names(row, kinds)] = cell
    return by_name


def competition_frame(board: Competition) -> pd.DataFrame:
    """Return a leaderboard with a row for each competitor, and its value at each setting in a column of its own.

    The columns are the kind of the rows, rank_low, rank_high, mean, mean_low, mean_high, and a column for each
    setting, whose names are joined by slashes.
    """
    rows = []
    for row in (*([board.reference] if board.reference else []), *board.rows):
        cells = {"/".join(filter(None, names)): row.cells.get(names) for names in board.settings}
        rows.append(
            {
                board.kind: row.name,
                "rank_low": row.rank.rank_low if row.rank else None,
                "rank_high": row.rank.rank_high if row.rank else None,
                **(row.mean or UNKNOWN).columns("mean"),
                **{names: cell.value if cell else None for names, cell in cells.items()},
            }
        )
    return pd.DataFrame(rows)
