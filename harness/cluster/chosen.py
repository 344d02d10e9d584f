"""The executor of a run: that of a cluster, or none for this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from prmcal.harness.cluster.settings import ClusterSettings
from prmcal.harness.planning.grid import GridSpec

if TYPE_CHECKING:
    from prmcal.harness.cluster.executor import RayExecutor

__all__ = ["chosen_executor"]


@contextmanager
def chosen_executor(
    grid: GridSpec, directory: Path, plugin_files: Sequence[Path], cluster: ClusterSettings | None
) -> Iterator[RayExecutor | None]:
    """Connect to the cluster while the block runs. On this machine a run makes its own executor, so this yields None.

    Raises
    ------
    ClusterError
        If the cluster cannot be reached, or cannot run the grid.
    """
    if cluster is None:
        yield None
        return
    from prmcal.harness.cluster.executor import RayExecutor

    with RayExecutor(directory, grid, plugin_files, cluster) as executor:
        yield executor
