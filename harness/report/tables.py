"""The tables of a report: the ranking, the paper beside it, errors, strategies, and Figure 4 in numbers."""

from dataclasses import dataclass, replace

import pandas as pd

from prmcal.db.queries.leaderboard import NAMED, reported
from prmcal.db.reader import known_levels
from prmcal.db.text.board import Board, Column
from prmcal.db.text.formats import LEADERBOARDS, MARKS, WORDS, number, standings_legend
from prmcal.db.text.overview import ranking_board
from prmcal.harness.report.evidence import PLACE, Evidence, for_every_prm, values, wanted, with_none
from prmcal.harness.report.exhibits import CAPTIONS, Panel, Table, TextTable

# The metrics of Tables 1 and 5 of the paper, in their order, and the labels of all its tables in `reported`.
_TABLE_1 = ("brier", "positive_brier", "adaptive_ce", "ece", "average_ce")
_TABLE_5 = ("adaptive_ce", "brier")
_STRATEGIES = (*LEADERBOARDS["scaling"].main_metrics, "samples")
_OF_SEARCH = {"bon": (2, "best-of-n"), "bs": (3, "beam search")}
_FIXED = (1, 4, 16, 64)
_PAPER_DIGITS = 4


def ranking(evidence: Evidence) -> TextTable | None:
    """Make the ranking of the calibrators; None if no place has two measured calibrators."""
    found = evidence.overview
    if not found.ranking:
        return None
    board = ranking_board(found)
    meanings = " ".join(f"{column.title}: {column.about}" for column in board.columns[2:])
    return TextTable("ranking", board.title, f"{board.legend} {meanings}", board)


def beside_the_paper(evidence: Evidence) -> TextTable | None:
    """Make the table of differences, a row for each table of the paper, PRM, metric, strategy and calibrator.

    None if the run has no value that the paper has too.
    """
    found = _compared(evidence)
    if found.empty:
        return None
    groups = found.groupby(["table", "prm", "metric", "strategy", "calibrator"], sort=False, dropna=False)
    rows = [_differences(evidence, group) for _, group in groups]
    heads = (
        "Table",
        "PRM",
        "Metric",
        "Of",
        "Numbers",
        "Mean difference",
        "Mean size",
        "Largest",
        "In the interval",
    )
    columns = [Column(head, values) for head, values in zip(heads, zip(*rows, strict=True), strict=True)]
    board = Board(tuple(columns), names=4)
    return TextTable("beside-the-paper", "Beside the paper", CAPTIONS["beside the paper"], board)


def _differences(evidence: Evidence, group: pd.DataFrame) -> tuple[str, ...]:
    """Return the texts of a row, which sums up the differences of some numbers."""
    first, differences = group.iloc[0], group["difference"].astype(float)
    largest = group.loc[differences.abs().idxmax()]
    return (
        WORDS["paper"][first["table"]],
        first["prm"],
        evidence.described.title(first["metric"]),
        ", ".join(each for each in (first["strategy"], first["calibrator"]) if each),
        str(len(group)),
        number(differences.mean(), _PAPER_DIGITS, signed=True),
        number(differences.abs().mean(), _PAPER_DIGITS),
        f"{number(largest['difference'], _PAPER_DIGITS, signed=True)} ({largest['llm']}, {largest['dataset']})",
        str(int(group["inside"].sum())),
    )


def _compared(evidence: Evidence) -> pd.DataFrame:
    """Return the numbers of the paper that have a measured value, with their differences."""
    measured = pd.concat([evidence.calibration, evidence.strategies])
    measured = measured[measured["value"].notna()].drop_duplicates(NAMED)
    rows = for_every_prm(with_none(reported()), evidence.prms).rename(columns={"value": "printed"})
    measured = for_every_prm(with_none(measured), evidence.prms).drop_duplicates(NAMED)
    found = rows.merge(measured[[*NAMED, "value", "low", "high"]], on=NAMED)
    found = found.drop_duplicates(["table", *NAMED])
    printed, value = (found[name].astype(float) for name in ("printed", "value"))
    half = 0.5 * 10.0 ** -found["digits"].astype(float)  # A printed number is rounded.
    inside = (found["low"].astype(float) - half <= printed) & (printed <= found["high"].astype(float) + half)
    return found.assign(difference=value - printed, inside=inside)


def table_1(evidence: Evidence) -> Table:
    """Make the table of errors before and after calibration for every PRM of the grid: Table 1 of the paper."""
    pair = evidence.before_and_after
    metrics = [metric for metric in _TABLE_1 if metric in evidence.metrics] or _TABLE_1
    shown = values(evidence.among(pair), wanted({**evidence.places, "metric": metrics, "calibrator": pair}))
    shown = shown.assign(head=shown["metric"].map(evidence.described.title), column=shown["calibrator"])
    return _table(
        "table-1",
        "Table 1: before and after calibration",
        "Errors of rewards, compared with success rates, over the prefixes of the test questions, with the calibrators "
        f"{' and '.join(pair)}. Lower is better. {_legend('prefixes', 'the two calibrators')}",
        (Panel("", "", "", shown),),
        "cal_qwen",
        "calibration_72b",
    )


def table_5(evidence: Evidence) -> Table:
    """Make the table of all calibrators: Table 5 of the paper, and the metrics that the leaderboard shows."""
    return _all_calibrators(
        evidence, "table-5", "Table 5: all calibrators", _of_table_5(evidence), "ats_comparison"
    )


def other_metrics(evidence: Evidence) -> Table | None:
    """Make the table of all calibrators with the metrics that Table 5 leaves out."""
    others = [metric for metric in evidence.metrics if metric not in _of_table_5(evidence)]
    return _all_calibrators(evidence, "other-metrics", "All other metrics", others) if others else None


def _all_calibrators(evidence: Evidence, name: str, title: str, metrics: list[str], *labels: str) -> Table:
    asked = wanted({"metric": metrics, **evidence.places, "calibrator": evidence.calibrators})
    shown = values(evidence.calibration, asked)
    return _table(
        name,
        title,
        f"All calibrators on the test questions, one panel for each metric. {_legend('prefixes', 'its row')}",
        _by_metric(evidence, shown.assign(column=shown["calibrator"])),
        *labels,
    )


def _of_table_5(evidence: Evidence) -> list[str]:
    shown = LEADERBOARDS["calibration"].main_metrics
    return [*_TABLE_5, *(metric for metric in shown if metric in evidence.metrics and metric not in _TABLE_5)]


def _legend(rows: str, group: str) -> str:
    """Explain intervals, counts and marks of a table whose values compete within `group`."""
    return (
        f"Below each value is its 95% interval over questions; n is the number of {rows} / questions. "
        f"Marks: {standings_legend(MARKS, group)}"
    )


def _by_metric(evidence: Evidence, shown: pd.DataFrame) -> tuple[Panel, ...]:
    """Return a panel for each metric. Its description says which values are better."""
    panels = []
    for metric, part in shown.groupby("metric", sort=False):
        described = evidence.described[str(metric)]
        better = f"{described.direction.capitalize()}." if described.better else ""
        about = f"{described.description} {better}".strip()
        panels.append(Panel(described.name.replace("_", "-"), described.title, about, part))
    return tuple(panels)


def of_search(evidence: Evidence, search: str) -> Table | None:
    """Make a table with the strategies of tables of the paper; None if the grid has none with a calibrator.

    `search` is "bon", best-of-n, for Tables 2, 6 and 7, or "bs", beam search, for Tables 3, 8 and 9. Places of which
    the grid has no strategy with the PRM are left out: pass@1 alone is not shown.
    """
    place, title = _OF_SEARCH[search]
    labels = [f"{search}_{prm}" for prm in ("qwen", "shepherd", "reasoneval")]
    names = [each for part in evidence.strategies_of_paper(labels[0]) for each in part]
    cells = with_none(evidence.strategies[evidence.strategies["strategy"].isin(names)])
    # A beam search of fixed width has a calibrator if its grid ranks by calibrated rewards.
    fixed = wanted({"strategy": names, "calibrator": [None]})
    columns = fixed.merge(cells[["strategy", "calibrator"]].drop_duplicates()).assign(head="")
    adaptive = wanted({"strategy": names, "calibrator": evidence.calibrators})
    adaptive = adaptive.merge(cells[["strategy", "calibrator"]].drop_duplicates())
    places = wanted(evidence.places).merge(cells[cells["prm"].notna()][[*PLACE]].drop_duplicates())
    if adaptive.empty or places.empty:
        return None
    columns = pd.concat([columns, adaptive])
    asked = wanted({"metric": _STRATEGIES}).merge(places, how="cross").merge(columns, how="cross")
    shown = values(evidence.strategies, asked)
    alone = shown["calibrator"].isna()
    shown = shown.assign(
        head=shown["strategy"].mask(alone, ""), column=shown["calibrator"].where(~alone, shown["strategy"])
    )
    return _table(
        f"table-{place}",
        f"Table {place}: {title} with instance-adaptive scaling",
        f"Accuracy and cost on the test questions, for C = {evidence.target:g} and the level beta nearest to "
        "0.1 (the median for calibrators with a point estimate). The budget ratio is the mean number of LLM calls, "
        f"divided by that of the fixed budget. {_legend('trajectories', 'its row')}",
        _by_metric(evidence, shown),
        *labels,
    )


@dataclass(frozen=True, eq=False)
class ByDifficulty:
    """The contents of Figure 4: data sets with several difficulties, one strategy and one calibrator.

    The evidence has these data sets only. `setting` names the strategy with its calibrator, C and beta, and `fixed` the
    values of n with a line, such as ``n = 4``. `values` has for each place and question_level the accuracy for each
    fixed n, and the accuracy and the samples of IAS.
    """

    evidence: Evidence
    strategy: str
    calibrator: str
    setting: str
    fixed: list[str]
    values: pd.DataFrame


def by_difficulty(evidence: Evidence) -> ByDifficulty | None:
    """Return the contents of Figure 4; None if the run has no data set with several difficulties or no IAS."""
    calibrator, found = evidence.method, evidence.by_difficulty
    _, adaptive = evidence.strategies_of_paper("bon_qwen")
    levels = found.loc[found["value"].notna(), ["dataset", "question_level"]].drop_duplicates()
    order = {level: place for place, level in enumerate(known_levels(levels["question_level"]))}
    if all(isinstance(level, int) for level in order):
        levels = levels.astype({"question_level": int})
    levels = levels.sort_values("question_level", key=lambda each: each.map(order))
    levels = levels.groupby("dataset").filter(lambda each: len(each) > 1)
    datasets = tuple(each for each in evidence.datasets if each in set(levels["dataset"]))
    cells = evidence.strategies[evidence.strategies["calibrator"] == calibrator]
    used = [each for each in adaptive if (cells["strategy"] == each).any()]
    if calibrator is None or evidence.target is None or not datasets or not used:
        return None
    fixed = [f"n = {n}" for n in _FIXED if (found["strategy"] == f"n = {n}").any()]
    of_ias = [(used[0], calibrator, metric) for metric in ("accuracy", "samples")]
    columns = [*((name, None, "accuracy") for name in fixed), *of_ias]
    of_datasets = replace(evidence, datasets=datasets)
    asked = wanted(of_datasets.places).merge(levels, on="dataset")
    asked = asked.merge(pd.DataFrame(columns, columns=["strategy", "calibrator", "metric"]), how="cross")
    level = cells.loc[cells["strategy"] == used[0], "level"].iloc[0]
    setting = f"'{used[0]}' with '{calibrator}', C = {evidence.target:g} and beta = {level:g}"
    return ByDifficulty(of_datasets, used[0], calibrator, setting, fixed, values(found, asked))


def figure_4_in_numbers(evidence: Evidence) -> Table | None:
    """Make the table of the numbers in Figure 4."""
    shown = by_difficulty(evidence)
    if shown is None:
        return None
    alone = shown.values["calibrator"].isna()
    numbers = shown.values.assign(
        head=shown.values["strategy"].mask(alone, "Accuracy"),
        column=shown.values["metric"].str.capitalize().mask(alone, shown.values["strategy"]),
    )
    return Table(
        "figure-4-numbers",
        "Figure 4 in numbers",
        f"Accuracy of best-of-n with a fixed n, and accuracy and mean samples of {shown.setting}, by difficulty of the "
        "questions. Below each value is its 95% interval over questions; n is the number of trajectories / questions. "
        "Values are not ranked.",
        (Panel("", "", "", numbers, (*PLACE, "question_level")),),
    )


def _table(name: str, title: str, caption: str, panels: tuple[Panel, ...], *labels: str) -> Table:
    """Return a table, with the numbers of some tables of the paper beside the values with the same names.

    `labels` are those of the tables in the source of the paper.
    """
    rows = reported()
    rows = with_none(rows[rows["table"].isin(labels)])
    rows["published"] = [f"{v:.{n}f}" for v, n in zip(rows["value"], rows["digits"], strict=True)]
    # The paper gives no PRM for a strategy that does not use one.
    prms = {prm for panel in panels for prm in panel.values["prm"]}
    rows = for_every_prm(rows, prms).drop_duplicates(NAMED)[[*NAMED, "published"]]
    beside = [with_none(panel.values.merge(rows, how="left", on=NAMED)) for panel in panels]
    if not any(each["published"].any() for each in beside):
        return Table(name, title, caption, panels)
    joined = tuple(replace(panel, values=found) for panel, found in zip(panels, beside, strict=True))
    return Table(name, title, f"{caption} {CAPTIONS['published']}", joined)
