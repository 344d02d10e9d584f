"""The bootstrap replicates of a measured cell, read from its artifact. The database does not contain them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prmcal.db.metrics import Better
from prmcal.db.statistics.paired_differences import Replicated
from prmcal.errors import ArtifactError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["comparable", "read_replicates"]

_TEXTS = ("metric", "resampled")


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
    results = _read(folder / "results.parquet", ("metric", "question_level", "value", "questions"))
    results = results.filter(results["question_level"].is_null())
    drawn = _read(folder / "replicates.parquet", (*_TEXTS, "value"))
    # The texts are read as numbers, because there are thousands of rows for each of a few texts.
    metrics, resampled = (drawn[name].combine_chunks() for name in _TEXTS)
    numbers, values = metrics.indices.to_numpy(), drawn["value"].to_numpy()
    drawn_of = {
        name: (values[rows], resampled[int(rows[0])].as_py())
        for number, name in enumerate(metrics.dictionary.to_pylist())
        if len(rows := np.flatnonzero(numbers == number))
    }
    return {
        row["metric"]: Replicated(row["value"], replicates, row["questions"], questions)
        for row in results.select(["metric", "value", "questions"]).to_pylist()
        if row["metric"] in drawn_of
        for replicates, questions in [drawn_of[row["metric"]]]
    }


def _read(path: Path, columns: Sequence[str]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    try:
        return parquet.read_table(path, columns=list(columns), read_dictionary=_TEXTS, use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise ArtifactError(
            f"The artifact {path} cannot be read: {error}. Run the grid again to rebuild it."
        ) from error


def comparable(measured: Replicated, better: Better | None) -> Replicated:
    """Return the quantity that cells are compared by: the value, or its absolute value if 0 is the best value."""
    return measured.distance_from_zero() if better == "near zero" else measured
