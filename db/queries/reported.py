"""The numbers of the paper's nine tables, to stand beside measured ones. They are reported, never ranked with them.

Source: "Know What You Don't Know: Uncertainty Calibration of Process Reward Models", Park et al., NeurIPS 2025,
arXiv 2506.09338. Two of its tables (the beam searches with Math-Shepherd and ReasonEval) are about 100 questions of
MATH and AIME 2024 alone, and repeat for the former the pass@1 of all 500 questions.
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
"""The paper's tables by their labels, in a reader's order."""

_NAMED = ["dataset", "llm", "prm", "calibrator", "strategy", "metric"]


def reported(**filters: str) -> pd.DataFrame:
    """Return what the paper reports, one number a row.

    Parameters
    ----------
    **filters : str
        Columns and the value that each must have, such as ``dataset="math500"``.

    Returns
    -------
    DataFrame
        Columns table (its label in the paper's source), dataset, llm, prm, calibrator, strategy, metric (named as
        this project's are), value, digits (decimal places that the paper prints) and status, which is ``reported``.
        None where a coordinate does not apply: pass@1 has no PRM, a calibration error no strategy.

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
    """Return one of the paper's tables with what a database measured under the same names.

    Parameters
    ----------
    source : Path or Connection
        The published copy.
    table : str
        One of :data:`REPORTED_TABLES`.

    Returns
    -------
    DataFrame
        The columns of :func:`reported`, then measured, low and high (its 95% interval) and questions: null where the
        run has no such cell. Of cells that differ only in C or beta it is the one with the largest C, and of these the
        one with the smallest beta, as the paper sets them.
    """
    import pandas as pd

    with connection_of(source) as connection:
        found = pd.concat([measurements(connection, each) for each in ("calibration", "scaling")])
    found = found.dropna(subset=["metric", "value"]).rename(columns={"value": "measured"})
    found = found.sort_values(["target", "level"], ascending=[False, True], kind="stable")
    found = found.drop_duplicates(_NAMED)[[*_NAMED, "measured", "low", "high", "questions"]]
    # A join takes two missing names for equal, but only of one type.
    numbers, found = (each.astype(dict.fromkeys(_NAMED, object)) for each in (reported(table=table), found))
    for each in (numbers, found):
        each[_NAMED] = each[_NAMED].where(each[_NAMED].notna(), None)
    return numbers.merge(found, how="left", on=_NAMED, validate="many_to_one")
