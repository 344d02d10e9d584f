"""The tables of a report: the ranking, errors of rewards, strategies, and the numbers of Figure 4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from prmcal.db.queries.leaderboard import reported
from prmcal.db.text.overview import ranking_board
from prmcal.db.text.presentation import COORDINATE_TITLES, LEADERBOARDS, standings_legend
from prmcal.harness.report.evidence import Evidence, Group, Value
from prmcal.harness.report.exhibits import Panel, Row, Table, TextTable, labels_of, titles_of

_MARKS = {"best": "bold", "tied": "="}

# The metrics of Tables 1, 4 and 5 of the paper, in their order, and the labels of all its tables in `reported`.
_TABLE_1 = ("brier", "positive_brier", "adaptive_ce", "ece", "average_ce")
_TABLE_4 = ("brier", "positive_brier")
_TABLE_5 = ("adaptive_ce", "brier")
_STRATEGIES = (*LEADERBOARDS["scaling"].main_metrics, "samples")
_OF_SEARCH = {"bon": "best-of-n", "bs": "beam search"}
_FIXED = (1, 4, 16, 64)
_PUBLISHED = (
    "'paper' is the number that the paper reports for the same names. Such numbers have no interval here and are not "
    "ranked."
)


def ranking(evidence: Evidence) -> TextTable | None:
    """Make the ranking of the calibrators; None if no place has two measured calibrators."""
    found = evidence.overview
    if not found.ranking:
        return None
    board = ranking_board(found)
    meanings = " ".join(f"{column.title}: {column.about}" for column in board.columns[2:])
    return TextTable("ranking", board.title, f"{board.legend} {meanings}", board)


def table_1(evidence: Evidence) -> Table:
    """Make the table of errors before and after calibration for every PRM of the grid: Table 1 of the paper."""
    pair = _before_and_after(evidence)
    metrics = [metric for metric in _TABLE_1 if metric in evidence.metrics] or _TABLE_1
    table = Table(
        "table-1",
        "Table 1: before and after calibration",
        "Errors of rewards, compared with success rates, over the prefixes of the test questions, "
        f"{_contents(pair)}. Lower is better. {_legend('prefixes', 'the two calibrators')}",
        (_panel(evidence.among(pair), metrics),),
    )
    return _beside_published(table, "cal_qwen")


def table_4(evidence: Evidence) -> Table | None:
    """Make the table of all PRMs side by side, before and after calibration: Table 4 of the paper.

    The paper compares two sizes of one PRM. None if the grid has a single PRM.
    """
    if len(evidence.prms) < 2:
        return None
    pair = _before_and_after(evidence)
    metrics = [metric for metric in _TABLE_4 if metric in evidence.metrics] or _TABLE_4
    table = Table(
        "table-4",
        "Table 4: the PRMs side by side",
        "Errors of the rewards of every PRM, compared with success rates, over the prefixes of the test questions, "
        f"{_contents(pair)}. All PRMs judge the same solutions. "
        f"{_legend('prefixes', 'the two calibrators of a PRM')} Values of different PRMs are not ranked; the command "
        "'prmcal compare' compares any two.",
        tuple(_side_by_side(evidence.among(pair), metric) for metric in metrics),
    )
    return _beside_published(table, "calibration_72b")


def table_5(evidence: Evidence) -> Table:
    """Make the table of all calibrators: Table 5 of the paper, and the metrics that the leaderboard shows."""
    table = Table(
        "table-5",
        "Table 5: all calibrators",
        f"All calibrators on the test questions, one panel for each metric. {_legend('prefixes', 'its row')}",
        tuple(_panel(evidence, [metric]) for metric in _of_table_5(evidence)),
    )
    return _beside_published(table, "ats_comparison")


def other_metrics(evidence: Evidence) -> Table | None:
    """Make the table of all calibrators with the metrics that Table 5 leaves out."""
    others = [metric for metric in evidence.metrics if metric not in _of_table_5(evidence)]
    if not others:
        return None
    return Table(
        "other-metrics",
        "All other metrics",
        f"All calibrators on the test questions, one panel for each metric. {_legend('prefixes', 'its row')}",
        tuple(_panel(evidence, [metric]) for metric in others),
    )


def _of_table_5(evidence: Evidence) -> list[str]:
    shown = LEADERBOARDS["calibration"].main_metrics
    return [*_TABLE_5, *(metric for metric in shown if metric in evidence.metrics and metric not in _TABLE_5)]


def _before_and_after(evidence: Evidence) -> list[str]:
    return [name for name in (evidence.uncalibrated, evidence.method) if name is not None]


def _contents(pair: Sequence[str]) -> str:
    if len(pair) == 2:
        return f"before calibration ({pair[0]}) and after ({pair[1]})"
    return f"with '{pair[0]}', the only calibrator to show"


def _legend(rows: str, group: str) -> str:
    """Explain intervals, counts and marks of a table whose values compete within `group`."""
    return (
        f"Below each value is its 95% interval over questions; n is the number of {rows} / questions. "
        f"Marks: {standings_legend(_MARKS, group)}"
    )


def _panel(evidence: Evidence, metrics: Sequence[str]) -> Panel:
    """Make a panel with calibrators in columns. Several metrics are heads; a single metric is the title."""
    alone = metrics[0] if len(metrics) == 1 else ""
    title = evidence.described.title
    columns = [(metric, calibrator) for metric in metrics for calibrator in evidence.calibrators]
    rows = [
        Row(labels_of(group), tuple(evidence.value(group, each, metric) for metric, each in columns))
        for group in evidence.groups
    ]
    return Panel(
        name=alone.replace("_", "-"),
        title=title(alone) if alone else "",
        description=_description(evidence, alone),
        heads=tuple(("" if alone else title(metric), evidence.calibrators) for metric in metrics),
        rows=tuple(rows),
    )


def _side_by_side(evidence: Evidence, metric: str) -> Panel:
    """Make a panel with PRMs in columns. Cells that the grid has for no LLM and data set have no column."""
    places = [(dataset, llm) for dataset in evidence.datasets for llm in evidence.llms]

    def value(dataset: str, llm: str, prm: str, calibrator: str) -> Value:
        return evidence.value(Group(dataset, prm, llm), calibrator, metric)

    columns = {
        prm: tuple(
            each
            for each in evidence.calibrators
            if any(value(*place, prm, each).status != "missing" for place in places)
        )
        for prm in evidence.prms
    }
    return Panel(
        name=metric.replace("_", "-"),
        title=evidence.described.title(metric),
        description=_description(evidence, metric),
        coordinates=tuple(COORDINATE_TITLES[name] for name in ("dataset", "llm")),
        heads=tuple((prm, shown) for prm, shown in columns.items() if shown),
        rows=tuple(
            Row(place, tuple(value(*place, prm, each) for prm, shown in columns.items() for each in shown))
            for place in places
        ),
    )


def _description(evidence: Evidence, metric: str) -> str:
    better = evidence.described.direction(metric)
    return f"{evidence.described.description(metric)}{f' {better.capitalize()}.' if better else ''}"


def table_2(evidence: Evidence) -> Table | None:
    """Make the table of best-of-n for every PRM of the grid: Tables 2, 6 and 7 of the paper."""
    return _of_strategies(evidence, 2, "bon")


def table_3(evidence: Evidence) -> Table | None:
    """Make the table of beam search for every PRM of the grid: Tables 3, 8 and 9 of the paper."""
    return _of_strategies(evidence, 3, "bs")


def _of_strategies(evidence: Evidence, place: int, search: str) -> Table | None:
    """Make a table with the strategies of tables of the paper; None if the grid has none with a calibrator.

    Groups of which the grid has no strategy with the PRM are left out: pass@1 alone is not shown.
    """
    labels = [f"{search}_{prm}" for prm in ("qwen", "shepherd", "reasoneval")]
    names = [each for part in evidence.strategies_of_paper(labels[0]) for each in part]
    cells = evidence.cells
    # A beam search of fixed width has a calibrator if its grid ranks by calibrated rewards.
    fixed, heads = (
        [each for each in names if ((cells["strategy"] == each) & chosen).any()]
        for chosen in (cells["calibrator"].isna(), cells["calibrator"].notna())
    )
    used = cells[cells["strategy"].isin(names) & cells["prm"].notna()]
    places = {Group(*each) for each in used[["dataset", "prm", "llm"]].itertuples(index=False)}
    groups = [group for group in evidence.groups if group in places]
    if not heads or not groups:
        return None
    table = Table(
        f"table-{place}",
        f"Table {place}: {_OF_SEARCH[search]} with instance-adaptive scaling",
        f"Accuracy and cost on the test questions, for C = {evidence.target:g} and the level beta nearest to "
        "0.1 (the median for calibrators with a point estimate). The budget ratio is the mean number of LLM calls, "
        f"divided by that of the fixed budget. {_legend('trajectories', 'its row')}",
        tuple(_strategies(evidence, groups, metric, fixed, heads) for metric in _STRATEGIES),
    )
    return _beside_published(table, *labels)


def _strategies(
    evidence: Evidence, groups: Sequence[Group], metric: str, fixed: Sequence[str], heads: Sequence[str]
) -> Panel:
    cells = evidence.cells
    used = {
        name: tuple(
            each
            for each in evidence.calibrators
            if ((cells["strategy"] == name) & (cells["calibrator"] == each)).any()
        )
        for name in heads
    }
    columns: list[tuple[str, str | None]] = [(name, None) for name in fixed]
    columns += [(name, each) for name, calibrators in used.items() for each in calibrators]
    rows = [
        Row(labels_of(group), tuple(evidence.strategy_value(group, *each, metric) for each in columns))
        for group in groups
    ]
    return Panel(
        name=metric.replace("_", "-"),
        title=evidence.described.title(metric),
        description=evidence.described.description(metric),
        heads=(*([("", tuple(fixed))] if fixed else []), *used.items()),
        rows=tuple(rows),
    )


@dataclass(frozen=True)
class ByDifficulty:
    """The contents of Figure 4: data sets with several difficulties, one strategy and one calibrator.

    Attributes
    ----------
    evidence : Evidence
        The evidence with these data sets only.
    strategy, calibrator : str
    level : float
        beta of the strategy.
    fixed : tuple of int
        The values of n with a line.
    """

    evidence: Evidence
    strategy: str
    calibrator: str
    level: float
    fixed: tuple[int, ...]

    @property
    def setting(self) -> str:
        """The strategy with its calibrator, C and beta, for captions."""
        target = self.evidence.target
        return f"'{self.strategy}' with '{self.calibrator}', C = {target:g} and beta = {self.level:g}"

    @property
    def places(self) -> list[tuple[Group, int]]:
        """All groups with each of their difficulties."""
        groups = self.evidence.groups
        return [(group, each) for group in groups for each in self.evidence.difficulties(group.dataset)]

    def adaptive(self, group: Group, difficulty: int, metric: str) -> Value:
        """Return the accuracy or the samples of IAS."""
        cell = (group, self.calibrator, metric, self.strategy)
        value = self.evidence.by_difficulty[difficulty].value(*cell)
        if value.reason is not None:  # the reason is that of the cell over all questions
            whole = self.evidence.strategy_value(group, self.strategy, self.calibrator, metric)
            value = replace(value, status=whole.status, reason=whole.reason or "It was not measured.")
        return replace(value, question_level=difficulty)

    def at_fixed(self, group: Group, difficulty: int, n: int) -> Value:
        """Return the accuracy of best-of-n with the same n for every question."""
        points = self.evidence.points
        at = {"dataset": group.dataset, "prm": group.prm, "llm": group.llm, "question_level": difficulty}
        for name, wanted in (*at.items(), ("samples", n)):
            points = points[points[name] == wanted]
        points = points[points["calibrator"].isna()]
        value = Value(group, None, "accuracy", "missing", strategy=f"n = {n}", question_level=difficulty)
        if points.empty:
            return replace(value, reason="The run has no curve of it yet.")
        row = points.iloc[0]
        low, high = (
            None if row[name] != row[name] else float(row[name]) for name in ("accuracy_low", "accuracy_high")
        )
        accuracy, questions = float(row["accuracy"]), int(row["questions"])
        return replace(value, status="done", value=accuracy, low=low, high=high, questions=questions)


def by_difficulty(evidence: Evidence) -> ByDifficulty | None:
    """Return the contents of Figure 4; None if the run has no data set with several difficulties or no IAS."""
    calibrator = evidence.method
    _, adaptive = evidence.strategies_of_paper("bon_qwen")
    datasets = tuple(each for each in evidence.datasets if len(evidence.difficulties(each)) > 1)
    cells = evidence.cells[evidence.cells["calibrator"] == calibrator]
    used = [each for each in adaptive if (cells["strategy"] == each).any()]
    if calibrator is None or evidence.target is None or not datasets or not used:
        return None
    counts = evidence.points.loc[evidence.points["question_level"].notna(), "samples"]
    return ByDifficulty(
        evidence=replace(evidence, datasets=datasets),
        strategy=used[0],
        calibrator=calibrator,
        level=float(cells.loc[cells["strategy"] == used[0], "level"].iloc[0]),
        fixed=tuple(n for n in _FIXED if (counts == n).any()),
    )


def figure_4_in_numbers(evidence: Evidence) -> Table | None:
    """Make the table of the numbers in Figure 4."""
    shown = by_difficulty(evidence)
    if shown is None:
        return None
    rows = [
        Row(
            (*labels_of(group), str(each)),
            (
                *(shown.at_fixed(group, each, n) for n in shown.fixed),
                *(shown.adaptive(group, each, metric) for metric in ("accuracy", "samples")),
            ),
        )
        for group, each in shown.places
    ]
    fixed = tuple(f"n = {n}" for n in shown.fixed)
    heads = (("Accuracy", fixed), (shown.strategy, ("Accuracy", "Samples")))
    return Table(
        "figure-4-numbers",
        "Figure 4 in numbers",
        f"Accuracy of best-of-n with a fixed n, and accuracy and mean samples of {shown.setting}, by difficulty of the "
        "questions. Below each value is its 95% interval over questions; n is the number of trajectories / questions. "
        "Values are not ranked.",
        (Panel("", "", "", heads, tuple(rows), (*titles_of(), "Difficulty")),),
    )


def _beside_published(table: Table, *labels: str) -> Table:
    """Return a table with the numbers of some tables of the paper beside the values with the same names.

    Parameters
    ----------
    table : Table
    *labels : str
        Keys of :data:`prmcal.db.queries.leaderboard.REPORTED_TABLES`.
    """
    names = ["dataset", "llm", "prm", "calibrator", "strategy", "metric"]
    rows = reported()
    rows = rows[rows["table"].isin(labels)]
    keys = rows[names].astype(object).where(rows[names].notna(), None).itertuples(index=False, name=None)
    texts = (f"{value:.{digits}f}" for value, digits in zip(rows["value"], rows["digits"], strict=True))
    numbers = dict(zip(keys, texts, strict=True))

    def joined(value: Value) -> Value:
        ends = (value.calibrator, value.strategy, value.metric)
        # The paper gives no PRM for a strategy that does not use one.
        own, any_prm = ((value.group.dataset, value.group.llm, prm, *ends) for prm in (value.group.prm, None))
        return replace(value, published=numbers.get(own, numbers.get(any_prm)))

    panels = tuple(
        replace(panel, rows=tuple(replace(row, values=tuple(map(joined, row.values))) for row in panel.rows))
        for panel in table.panels
    )
    found = replace(table, panels=panels)
    if not any(value.published for value in found.values()):
        return table
    return replace(found, caption=f"{table.caption} {_PUBLISHED}")
