"""The distance between measured values and the numbers that the paper prints for the same names."""

import pandas as pd

from prmcal.db.queries.leaderboard import NAMED, REPORTED_TABLES, reported
from prmcal.db.text.board import Board, Column
from prmcal.db.text.formats import number
from prmcal.harness.report.evidence import Evidence, for_every_prm, with_none
from prmcal.harness.report.exhibits import CAPTIONS, TextTable

_DIGITS = 4


def beside_the_paper(evidence: Evidence) -> TextTable | None:
    """Make the table of differences, a row for each table of the paper, PRM, metric, strategy and calibrator.

    None if the run has no value that the paper has too.
    """
    found = _compared(evidence)
    if found.empty:
        return None
    groups = found.groupby(["table", "prm", "metric", "strategy", "calibrator"], sort=False, dropna=False)
    rows = [_row(evidence, group) for _, group in groups]
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


def _row(evidence: Evidence, group: pd.DataFrame) -> tuple[str, ...]:
    """Return the texts of a row, which sums up the differences of some numbers."""
    first, differences = group.iloc[0], group["difference"].astype(float)
    largest = group.loc[differences.abs().idxmax()]
    return (
        REPORTED_TABLES[first["table"]],
        first["prm"],
        evidence.described.title(first["metric"]),
        ", ".join(each for each in (first["strategy"], first["calibrator"]) if each),
        str(len(group)),
        number(differences.mean(), _DIGITS, signed=True),
        number(differences.abs().mean(), _DIGITS),
        f"{number(largest['difference'], _DIGITS, signed=True)} ({largest['llm']}, {largest['dataset']})",
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
