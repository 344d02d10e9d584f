"""The tables of a report: the ranking, errors of rewards, strategies, and the paper beside them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from prmcal.db.queries.leaderboard import NAMED, reported
from prmcal.db.text import formats
from prmcal.db.text.formats import escape_latex as latex
from prmcal.db.text.overview import ranking_board
from prmcal.harness.report.evidence import SETTING, Evidence, by_metric, for_every_prm

_TABLE_1 = ("brier", "positive_brier", "adaptive_ce", "ece", "average_ce")
_TABLE_5 = dict.fromkeys(("adaptive_ce", "brier", *formats.LEADERBOARDS["calibration"].main_metrics))
_STRATEGIES = (*formats.LEADERBOARDS["scaling"].main_metrics, "samples")
_SEARCHES = {"bon": ("table-2", "Best-of-n with IAS"), "bs": ("table-3", "Beam search with IAS")}
_SMALL = r"{\scriptsize\setlength{\tabcolsep}{3pt}"
_COLUMNS = (
    *("dataset", "prm", "llm", "strategy", "target", "level", "calibrator", "metric", "value", "low", "high"),
    *("published", "prefixes", "questions", "standing", "status", "reason"),
)


@dataclass(frozen=True, eq=False)
class Table:
    """A table: the name of its files, its title and caption in plain text, its rows for CSV, and its LaTeX."""

    name: str
    title: str
    caption: str
    rows: pd.DataFrame
    latex: str


def tables(evidence: Evidence) -> list[Table]:
    """Make all tables for which the grid has results. The paper's tables have its numbers beside the measured ones."""
    result_tables = list(_of_paper(evidence))
    rows = pd.concat([table.rows.assign(Table=table.title) for table in result_tables])
    beside = rows.dropna(subset=["value", "published"])
    ranking = [_ranking(evidence)] if evidence.overview.ranking else []
    return [*ranking, *([_beside_the_paper(evidence, beside)] if len(beside) else []), *result_tables]


def _of_paper(evidence: Evidence) -> Iterator[Table]:
    """Yield Tables 1, 2, 3 (for a grid with beam searches), 4 (for one with several PRMs) and 5 of the paper."""
    about = "Errors of rewards, compared with success rates, over the prefixes of the test questions."
    pair, names_of_rows = evidence.errors(_TABLE_1, evidence.before + evidence.after), [*SETTING, "calibrator"]
    labels = ["cal_qwen", "calibration_72b"]
    yield _table(evidence, ("table-1", "Before and after calibration", about), pair, names_of_rows, labels)
    for search, (name, title) in _SEARCHES.items():
        of_search = [f"{search}_{prm}" for prm in ("qwen", "shepherd", "reasoneval")]
        names = [*SETTING, "strategy", "calibrator"]
        rows = evidence.in_order(by_metric(evidence.strategies_of(of_search[0]), _STRATEGIES), names)
        cost = (
            f"Accuracy and cost on the test questions, for C = {evidence.target} and the level beta nearest to 0.1. "
            "The budget ratio is the mean number of LLM calls, divided by that of the fixed budget."
        )
        if len(rows):
            yield _table(evidence, (name, title, cost), rows, names, of_search)
    if len(evidence.names["prm"]) > 1:
        rows, names = pair[pair["metric"].isin(_TABLE_1[:2])], ["dataset", "llm", "prm", "calibrator"]
        rows = evidence.in_order(rows, names[:3])
        yield _table(evidence, ("table-4", "PRMs and calibration", about), rows, names, labels[::-1])
    metrics = [name for name in _TABLE_5 if (evidence.calibration["metric"] == name).any()]
    rows = evidence.errors(metrics or [*_TABLE_5], evidence.names["calibrator"])
    yield _table(evidence, ("table-5", "All calibrators", about), rows, names_of_rows, ["ats_comparison"])


def _table(
    evidence: Evidence, words: tuple[str, str, str], rows: pd.DataFrame, names: list[str], labels: list[str]
) -> Table:
    """Return a table with a line for each combination of names and a column for each metric.

    `words` are the name, the title and the caption. Below a value stands the paper's number for the same names, from
    its first table with these `labels` that has one. A number without a PRM is for every PRM.
    """
    printed = for_every_prm(pd.concat([reported(table=label) for label in labels]), evidence.names["prm"])
    printed = printed.fillna(dict.fromkeys(NAMED, "")).drop_duplicates(NAMED)
    texts = [f"{row.value:.{row.digits}f}" for row in printed.itertuples()]
    beside = rows[NAMED].fillna("").merge(printed[NAMED].assign(text=texts), how="left", on=NAMED)["text"]
    rows = rows.assign(published=beside.to_numpy())
    metrics = [evidence.metrics[metric] for metric in rows["metric"].unique()]
    legend = formats.standings_legend(formats.MARKS, "its place in this table")
    caption = f"{words[2]} Below each value is its 95% interval over questions. Marks: {legend}"
    if beside.notna().any():
        caption += " 'paper' is the number that the paper reports for the same names."
    cells = rows[names].fillna("").assign(metric=rows["metric"], text=[*map(_cell, rows.itertuples())])
    wide = cells.set_index([*names, "metric"])["text"].unstack(sort=False, fill_value="")
    wide.index.names = [formats.COORDINATE_TITLES[kind] for kind in names]
    code = _latex(wide.set_axis([metric.title for metric in metrics], axis=1), *words[:2], caption)
    return Table(*words[:2], caption, rows.reindex(columns=list(_COLUMNS)), code)


def _cell(row: Any) -> str:
    """Return the LaTeX of a value with its mark, and below it the interval and the number of the paper."""
    published = "" if pd.isna(row.published) else f"paper {row.published}"
    if pd.isna(row.value):
        return _stacked(row.status if row.status != "done" else "", published)
    mark = formats.MARKS.get(row.standing, "")
    return _stacked(f"{formats.number(row.value)}{mark}", formats.interval(row.low, row.high), published)


def _stacked(*lines: str) -> str:
    # LaTeX would read a bracket at the beginning of a line as a distance.
    text = r"\\{}".join(filter(None, lines))
    text = re.sub(r"(?<!\d)-(?=\d)", "$-$", text)
    return rf"\begin{{tabular}}[t]{{@{{}}r@{{}}}}{text}\end{{tabular}}"


def _ranking(evidence: Evidence) -> Table:
    board = ranking_board(evidence.overview)
    rows = pd.DataFrame(board.rows, columns=board.head)
    titles = [column.title for column in board.columns if column.weight <= 3]  # what fits a page
    cells = rows[titles].set_index(titles[: board.names]).replace(r" \[", "\n[", regex=True)
    stacked_cells = cells.map(lambda text: _stacked(*map(latex, text.split("\n"))))
    code = _latex(stacked_cells, "ranking", board.title, board.legend)
    return Table("ranking", board.title, board.legend, rows, code)


def _beside_the_paper(evidence: Evidence, rows: pd.DataFrame) -> Table:
    """Return the differences from the paper, a row for each table, PRM, metric, strategy and calibrator."""
    rows = rows.assign(
        PRM=rows["prm"],
        Metric=rows["metric"].map(evidence.metrics.title),
        Of=(rows["strategy"].fillna("") + ", " + rows["calibrator"].fillna("")).str.strip(", "),
        difference=rows["value"] - rows["published"].astype(float),
    )
    groups = rows.groupby(["Table", "PRM", "Metric", "Of"], sort=False)["difference"]
    differences = groups.agg(Numbers="size", Mean="mean", Smallest="min", Largest="max")
    words = "beside-the-paper", "Beside the paper", "Measured minus printed numbers, over LLMs and data sets."
    return Table(*words, differences.reset_index(), _latex(differences.map("{:.4g}".format), *words))


def _latex(table: pd.DataFrame, name: str, title: str, caption: str) -> str:
    """Return a ``longtable`` of pandas. Its cells are LaTeX already; names and titles are escaped here."""
    styler = table.style.format_index(latex, axis=0).format_index(latex, axis=1)
    code = styler.to_latex(
        environment="longtable",
        hrules=True,
        sparse_index=False,
        column_format="l" * table.index.nlevels + "r" * len(table.columns),
        caption=latex(f"{title}. {caption}"),
        label=f"tab:prmcal-{name}",
    )
    return f"% The preamble needs \\usepackage{{booktabs,longtable}}.\n{_SMALL}\n{code}}}\n"
