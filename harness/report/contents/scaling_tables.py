"""The tables of strategies: best-of-n and beam search, with and without IAS."""

from __future__ import annotations

from collections.abc import Sequence

from prmcal.db.queries.leaderboard import reported
from prmcal.db.text.presentation import LEADERBOARDS
from prmcal.harness.report.contents.published import beside_published
from prmcal.harness.report.contents.tables import legend
from prmcal.harness.report.evidence.read import Evidence
from prmcal.harness.report.evidence.scaling import strategy_value
from prmcal.harness.report.evidence.values import Group
from prmcal.harness.report.exhibits.types import Panel, Row, Table, labels_of

__all__ = ["strategies_of_paper", "table_2", "table_3"]

_METRICS = (*LEADERBOARDS["scaling"].main_metrics, "samples")


def table_2(evidence: Evidence) -> Table | None:
    """Make the table of best-of-n for every PRM of the grid: Tables 2, 6 and 7 of the paper."""
    labels = ("bon_qwen", "bon_shepherd", "bon_reasoneval")
    return _table(evidence, "table-2", "Table 2: best-of-n with instance-adaptive scaling", labels)


def table_3(evidence: Evidence) -> Table | None:
    """Make the table of beam search for every PRM of the grid: Tables 3, 8 and 9 of the paper."""
    labels = ("bs_qwen", "bs_shepherd", "bs_reasoneval")
    return _table(evidence, "table-3", "Table 3: beam search with instance-adaptive scaling", labels)


def strategies_of_paper(evidence: Evidence, label: str) -> tuple[list[str], list[str]]:
    """Return the names in the grid of the strategies of a table of the paper: with a fixed budget, and with IAS."""
    rows = reported(table=label)
    adaptive = rows["calibrator"].notna()
    fixed, scaled = (
        [each for plugin in used["strategy"].unique() for each in evidence.scaling.named(plugin)]
        for used in (rows[~adaptive], rows[adaptive])
    )
    return fixed, scaled


def _table(evidence: Evidence, name: str, title: str, labels: Sequence[str]) -> Table | None:
    """Make a table with the strategies of tables of the paper; None if the grid has none with a calibrator.

    Groups of which the grid has no strategy with the PRM are left out: pass@1 alone is not shown.
    """
    names = [each for part in strategies_of_paper(evidence, labels[0]) for each in part]
    cells = evidence.scaling.cells
    # A beam search of fixed width has a calibrator if its grid ranks by calibrated rewards.
    fixed, heads = (
        [each for each in names if ((cells["strategy"] == each) & chosen).any()]
        for chosen in (cells["calibrator"].isna(), cells["calibrator"].notna())
    )
    used = cells[cells["strategy"].isin(names) & cells["prm"].notna()]
    places = {Group(*names) for names in used[["dataset", "prm", "llm"]].itertuples(index=False)}
    groups = [group for group in evidence.groups if group in places]
    if not heads or not groups:
        return None
    table = Table(
        name,
        title,
        f"Accuracy and cost on the test questions, for C = {evidence.scaling.target:g} and the level beta nearest to "
        "0.1 (the median for calibrators with a point estimate). The budget ratio is the mean number of LLM calls, "
        f"divided by that of the fixed budget. {legend('trajectories', 'its row')}",
        tuple(_panel(evidence, groups, metric, fixed, heads) for metric in _METRICS),
    )
    return beside_published(table, *labels)


def _panel(
    evidence: Evidence, groups: Sequence[Group], metric: str, fixed: Sequence[str], heads: Sequence[str]
) -> Panel:
    cells = evidence.scaling.cells
    calibrators = {
        label: tuple(
            each
            for each in evidence.calibrators
            if ((cells["strategy"] == label) & (cells["calibrator"] == each)).any()
        )
        for label in heads
    }
    columns: list[tuple[str, str | None]] = [(label, None) for label in fixed]
    columns += [(label, each) for label in heads for each in calibrators[label]]
    return Panel(
        name=metric.replace("_", "-"),
        title=evidence.described.title(metric),
        description=evidence.described.description(metric),
        heads=(
            *(((("", tuple(fixed))),) if fixed else ()),
            *((label, calibrators[label]) for label in heads),
        ),
        rows=tuple(
            Row(labels_of(group), tuple(strategy_value(cells, group, *column, metric) for column in columns))
            for group in groups
        ),
    )
