"""The numbers of the paper's nine tables, to stand beside measured ones. They are reported, never ranked with them.

Source: "Know What You Don't Know: Uncertainty Calibration of Process Reward Models", Park et al., NeurIPS 2025,
arXiv 2506.09338. Two of its tables (the beam searches with Math-Shepherd and ReasonEval) are about 100 questions of
MATH and AIME 2024 alone, and repeat for the former the pass@1 of all 500 questions.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["reported"]

_FILE = Path(__file__).with_name("reported.csv")


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
