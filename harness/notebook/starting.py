"""Run a grid from Python."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from prmcal.errors import PluginError
from prmcal.harness.cluster.chosen import chosen_executor
from prmcal.harness.cluster.settings import ClusterSettings
from prmcal.harness.execution.run import run_grid
from prmcal.harness.machine.gpus import default_workers
from prmcal.harness.notebook.opened import Names, Run, open_run
from prmcal.harness.planning.grid_file.grid import GridSpec, PluginSpec
from prmcal.harness.planning.grid_file.read import grid_of, read_grid
from prmcal.harness.planning.grid_file.shipped import find_grid
from prmcal.registry.plugin_files import load_plugin_file
from prmcal.registry.plugins import KINDS

__all__ = ["run"]


def run(
    grid: str | Path | Mapping[str, Any] | GridSpec,
    out: str | Path,
    *,
    limit: int | None = None,
    workers: int | None = None,
    plugins: Sequence[str | Path] = (),
    progress: bool = False,
    only: Mapping[str, Names] | None = None,
    retry_failed: bool = False,
    max_hours: float | None = None,
    drop_cells: bool = False,
    cluster: ClusterSettings | None = None,
) -> Run:
    """Run a grid, as ``prmcal run`` does. Finished work in `out` is kept, so an interrupted run continues.

    Parameters
    ----------
    grid : str, Path, mapping or GridSpec
        The name of a shipped grid such as ``"nano"``, the path of a grid file, or what such a file contains.
    out : str or Path
        The output folder: artifacts and the database.
    limit : int, optional
        Use only the first questions of every data set.
    workers : int, optional
        Number of worker processes; by default one for each GPU or core.
    plugins : sequence of str or Path
        Python files that register plugins. A file that was changed since the last call is loaded again. Plugins that
        are defined in the notebook itself cannot be used, because the worker processes do not have them.
    progress : bool, default False
        Whether the progress is written to standard error.
    only : mapping of str to str or sequence of str, optional
        Run only what the cells with these names need, by their kind: ``{"llm": "weak", "prm": ["qwen", "shepherd"]}``.
        Kinds are llm, prm, calibrator, dataset and strategy. Other cells stay as they are.
    retry_failed : bool, default False
        Run only what the cells need that failed in the latest run of the folder.
    max_hours : float, optional
        End the run after this time, in hours. The cells that are not finished have the status "pending".
    drop_cells : bool, default False
        Whether finished cells are deleted from the database that the grid no longer has, or that have changed and that
        `only` leaves out. Their artifacts stay.
    cluster : ClusterSettings, optional
        How to run on a Ray cluster, such as ``ClusterSettings("10.0.0.1:6379")``. By default on this machine.

    Returns
    -------
    Run
        The results. Cells that failed have the status "failed" in :attr:`Run.cells`, with the reason.

    Raises
    ------
    GridError
        If there is no such grid, or it is wrong.
    PluginError
        If a plugin cannot be found, loaded or built.
    RunError
        If the folder is locked by another run or belongs to another grid, or finished cells would be deleted without
        `drop_cells`.
    ClusterError
        If the cluster cannot be reached, or cannot run the grid.
    StorageError
        If the disk is full. Finished work is kept.

    Notes
    -----
    SIGINT (Ctrl-C), SIGTERM and SIGHUP end the run. Finished work is recorded. Then the signal has its usual effect:
    Ctrl-C raises KeyboardInterrupt.

    Examples
    --------
    >>> import prmcal
    >>> prmcal.run("nano", "runs/nano", progress=True)  # doctest: +SKIP
    """
    files = [Path(file) for file in plugins]
    for file in files:
        load_plugin_file(file)
    spec = _spec(grid).limited(limit)
    _require_files(spec)
    directory = Path(out)
    shown = sys.stderr if progress else io.StringIO()
    with chosen_executor(spec, directory, files, cluster) as executor:
        summary = run_grid(
            spec,
            directory,
            executor.workers if executor is not None else workers or default_workers(spec),
            files,
            executor,
            stream=shown,
            only={
                kind: [names] if isinstance(names, str) else list(names)
                for kind, names in (only or {}).items()
            },
            retry_failed=retry_failed,
            max_hours=max_hours,
            drop_cells=drop_cells,
        )
    if summary.ending in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.raise_signal(signal.Signals[summary.ending])
    return open_run(directory)


def _spec(grid: str | Path | Mapping[str, Any] | GridSpec) -> GridSpec:
    if isinstance(grid, GridSpec):
        return grid
    if isinstance(grid, Mapping):
        return grid_of(grid, "The grid")
    return read_grid(find_grid(str(grid)))


def _require_files(grid: GridSpec) -> None:
    """Raise PluginError if the grid has a plugin that a worker process could not load."""
    named: dict[str, Iterable[PluginSpec]] = {
        "llm": grid.llms,
        "prm": grid.prms,
        "calibrator": grid.calibrators,
        "dataset": [*grid.datasets, grid.calibration],
        "strategy": grid.strategies,
        "metric": grid.measurement.metrics,
    }
    for kind, specs in named.items():
        registry = KINDS[kind]
        installed = {point.name for point in metadata.entry_points(group=registry.group)}
        for name in {spec.plugin for spec in specs} - installed:
            module = registry.get(name).__module__
            if not module.startswith(("prmcal.", "prmcal_plugin_")):
                raise PluginError(
                    f"The {kind} '{name}' is defined in {module}, where worker processes do not find it. Write it into "
                    'a file of its own, and give the file: prmcal.run(..., plugins=["my_plugins.py"]).'
                )
