"""The bootstrap replicates of a measured cell, read from its artifact. The database does not contain them."""

from __future__ import annotations

from pathlib import Path

from prmcal.db.metrics import Better
from prmcal.db.statistics.paired_differences import Replicated
from prmcal.errors import ArtifactError

__all__ = ["comparable", "read_replicates"]


def read_replicates(folder: Path) -> dict[str, Replicated]:
    """Return the values of a measuring job over all questions, with their bootstrap replicates, by metric.

    Parameters
    ----------
    folder : Path
        The artifact, :func:`prmcal.db.run_folder.artifact_folder`.

    Raises
    ------
    ArtifactError
        If the artifact is absent or cannot be read.
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


def comparable(measured: Replicated, better: Better | None) -> Replicated:
    """Return the quantity that cells are compared by: the value, or its absolute value if 0 is the best value."""
    return measured.distance_from_zero() if better == "near zero" else measured
