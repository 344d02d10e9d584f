"""What is said below a table of the terminal about the rows of a merged leaderboard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prmcal.db.text.provenance import renewal

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["provenance_notes"]

_SEEDS_NOTE = (
    "Measured with several seeds: {:,} of these cells. Intervals are over questions and leave out the spread between "
    "seeds, which `prmcal show CELL` and --format csv have."
)


def provenance_notes(frame: pd.DataFrame) -> Iterator[str]:
    """Yield notes on rows that are not current, that a verification found wrong, and that have several seeds.

    Parameters
    ----------
    frame : DataFrame
        As :func:`prmcal.db.queries.leaderboard.leaderboard` returns it. The rows of a run need no note.
    """
    if "outdated" in frame:
        for reason, rows in frame[frame["outdated"].notna()].groupby("outdated", sort=False):
            again = renewal(rows.iloc[0].to_dict())
            yield (
                f"Not current: {_numbers(rows)}. Since then, this has changed: {reason}. To measure the first again: "
                f"{again}"
            )
        failed = frame[frame["failed_verifications"] > 0]
        if len(failed):
            yield f"A verification failed: {_numbers(failed)}."
    if "seeds" in frame:
        yield _SEEDS_NOTE.format(int(frame["seeds"].notna().sum()))


def _numbers(rows: pd.DataFrame) -> str:
    return ", ".join(f"#{number}" for number in rows["number"])
