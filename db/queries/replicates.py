"""The bootstrap replicates of a measured cell, as its artifact keeps them: the database does not hold them."""

from __future__ import annotations

from pathlib import Path

from prmcal.db.queries.leaderboard import METRICS
from prmcal.db.statistics.paired import Replicated
from prmcal.errors import ArtifactError

__all__ = ["comparable", "replicated"]


def replicated(folder: Path) -> dict[str, Replicated]:
    """The values of a measuring job by metric, with their bootstrap replicates.

    Parameters
    ----------
    folder : Path
        The artifact, :func:`prmcal.db.files.artifact_folder`.

    Raises
    ------
    ArtifactError
        If the artifact is not there or cannot be read.
    """
    import pandas as pd

    tables = {}
    for name in ("results", "replicates"):
        path = folder / f"{name}.parquet"
        try:
            tables[name] = pd.read_parquet(path)
        except (OSError, ValueError) as error:
            raise ArtifactError(
                f"The artifact {path} cannot be read: {error}. Run the grid again to rebuild it."
            ) from error
    results = tables["results"]
    drawn = dict(iter(tables["replicates"].groupby("metric")))
    return {
        row.metric: Replicated(
            row.value,
            drawn[row.metric]["value"].to_numpy(),
            row.questions,
            drawn[row.metric]["resampled"].iloc[0],
        )
        for row in results[results["question_level"].isna()].itertuples()
        if row.metric in drawn
    }


def comparable(metric: str, measured: Replicated) -> Replicated:
    """What of a metric is compared: its value, or its distance from 0 where 0 is the best."""
    near_zero = metric in METRICS and METRICS[metric].better == "near zero"
    return measured.distance_from_zero() if near_zero else measured
