"""The numbers of the nine tables of the paper, to compare with measured ones. They are never ranked.

Source: "Know What You Don't Know: Uncertainty Calibration of Process Reward Models", Park et al., NeurIPS 2025,
arXiv 2506.09338. The tables of beam search with Math-Shepherd and with ReasonEval use 100 questions of MATH, and of
AIME only the year 2024. Their pass@1 on MATH is that of all 500 questions. All beam searches rank by the calibrated
PRM, so those of fixed width are in the rows of quantile-lora too.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from prmcal.db.queries.leaderboard import measurements
from prmcal.db.reader import Source, connection_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["REPORTED_TABLES", "beside_measured", "reported"]

_FILE = Path(__file__).with_name("reported.csv")

REPORTED_TABLES = {
    "cal_qwen": "Calibration, Qwen-PRM-7B",
    "calibration_72b": "Calibration, Qwen-PRM-72B",
    "ats_comparison": "All calibrators, Qwen-PRM-7B",
    "bon_qwen": "Best-of-n, Qwen-PRM-7B",
    "bon_shepherd": "Best-of-n, Math-Shepherd",
    "bon_reasoneval": "Best-of-n, ReasonEval",
    "bs_qwen": "Beam search, Qwen-PRM-7B",
    "bs_shepherd": "Beam search, Math-Shepherd",
    "bs_reasoneval": "Beam search, ReasonEval",
}
"""Titles of the tables by their labels in the source of the paper."""

_NAMED = ["dataset", "llm", "prm", "calibrator", "strategy", "metric"]


def reported(**filters: str) -> pd.DataFrame:
    """Return the numbers of the paper, one per row.

    Parameters
    ----------
    **filters : str
        Values of columns that select rows, such as ``dataset="math500"``.

    Returns
    -------
    DataFrame
        Columns table (a key of :data:`REPORTED_TABLES`), dataset, llm, prm, calibrator, strategy, metric, value, digits
        (decimal places in the paper) and status, which is ``reported``. Calibrators and strategies have the names under
        which they are registered, and LLMs, PRMs and data sets those of ``grids/paper.yaml``. A coordinate that does
        not apply is None: a calibration error has no strategy.

    Raises
    ------
    ValueError
        If a filter names no column.
    """
    import pandas as pd

    text = pd.read_csv(_FILE, dtype=str, keep_default_na=False)
    unknown = sorted(set(filters) - set(text.columns))
    if unknown:
        raise ValueError(f"There is no column '{unknown[0]}'. The columns are: {', '.join(text.columns)}.")
    for column, wanted in filters.items():
        text = text[text[column] == wanted]
    found = text.replace("", None).reset_index(drop=True)
    found["digits"] = text["value"].str.partition(".")[2].str.len().to_numpy()
    found["value"] = text["value"].astype(float).to_numpy()
    found["status"] = "reported"
    return found


def beside_measured(source: Source, table: str) -> pd.DataFrame:
    """Return a table of the paper with the values that a database has for the same names.

    Parameters
    ----------
    source : Path or Connection
        The published copy.
    table : str
        One of :data:`REPORTED_TABLES`.

    Returns
    -------
    DataFrame
        The columns of :func:`reported`, then measured, low and high (the 95% interval) and questions, which are null if
        the run has no such cell. If cells differ only in C or beta, the one with the largest C is used, and then the
        one with the smallest beta, as in the paper.
    """
    import pandas as pd

    with connection_of(source) as connection:
        found = pd.concat([measurements(connection, each) for each in ("calibration", "scaling")])
    found = found.dropna(subset=["metric", "value"]).rename(columns={"value": "measured"})
    found = found.sort_values(["target", "level"], ascending=[False, True], kind="stable")
    found = found.drop_duplicates(_NAMED)[[*_NAMED, "measured", "low", "high", "questions"]]
    # A join matches missing names only if both have the same type.
    numbers, found = (each.astype(dict.fromkeys(_NAMED, object)) for each in (reported(table=table), found))
    for each in (numbers, found):
        each[_NAMED] = each[_NAMED].where(each[_NAMED].notna(), None)
    return numbers.merge(found, how="left", on=_NAMED, validate="many_to_one")
