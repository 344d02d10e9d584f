"""``prmcal.run`` and ``prmcal.open_run``: the commands for Python and notebooks.

They print nothing by default, end no process, and raise the errors of the commands.
"""

import io
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Unpack

import pandas as pd

from prmcal.db import catalog
from prmcal.db.overview.query import overview, ranking_frame
from prmcal.db.queries.cells import Names, SettingNames, find_cell
from prmcal.db.queries.two_cells import CellComparison
from prmcal.db.reader import reading
from prmcal.errors import PluginError, PrmcalError
from prmcal.harness.cluster.executor import RayExecutor
from prmcal.harness.cluster.nodes import ClusterSettings
from prmcal.harness.execution.machine import default_workers
from prmcal.harness.execution.run import run_grid
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.reading import find_grid, grid_of, read_grid
from prmcal.harness.storage.folder import RunFolder
from prmcal.registry.plugins import KINDS, load_plugin_file
from prmcal.steps import STEP_END

_TABLES = ("calibration", "scaling")


def open_run(directory: str | Path) -> "Run":
    """Open the results in the output folder of a run, also while it is in progress.

    Raises a RunError if no grid was run in the folder. Raises a DatabaseError if its database cannot be read.

    Examples
    --------
    >>> import prmcal
    >>> prmcal.open_run("runs/nano").leaderboard("calibration")  # doctest: +SKIP
    """
    opened = Run(Path(directory))
    with reading(RunFolder(opened.directory).results()):
        return opened


@dataclass(frozen=True, repr=False)
class Run:
    """The results of a run. :func:`prmcal.open_run` and :func:`prmcal.run` return it.

    Every method reads the current state, so the values of a run in progress change. A cell is named by its short number
    (``"#12"`` or 12), by its identifier, or by a part of it that only one cell has.
    """

    directory: Path
    """The output folder of the run."""

    def __repr__(self) -> str:
        cells = self.cells
        names = catalog.runs(self._published)["grid_name"]
        grid = names.iloc[-1] if len(names) else "unknown"
        counts = [f", {n:,} {status}" for status, n in sorted(cells["status"].value_counts().items())]
        state = " (in progress)" if RunFolder(self.directory).running() else ""
        return f"Run of the grid '{grid}' in {self.directory}{state}: {len(cells):,} cells{''.join(counts)}"

    def ranking(self, **names: Unpack[SettingNames]) -> pd.DataFrame:
        """Return the ranking of the calibrators as a table, the best first.

        `llm`, `prm` and `dataset` keep only settings with these names.

        Returns
        -------
        DataFrame
            Columns calibrator, rank, rank_low, rank_high, mean_rank, settings, lowest (settings with the lowest score),
            wins, ties, losses, brier (noise-corrected Brier score), brier_reduction (the share by which calibration
            lowers it), the other main metrics, ias_accuracy, ias_samples, ias_share (samples divided by N),
            ias_to_best_of_n and ias_to_equal_cost (differences of accuracy), fit_seconds and citation. Values have
            their 95% interval in ``<column>_low`` and ``<column>_high``. What was not measured is NaN.
        """
        return ranking_frame(overview(self._published, **_listed(names)))

    def leaderboard(
        self, table: Literal["calibration", "scaling"] = "calibration", **names: Unpack[Names]
    ) -> pd.DataFrame:
        """Return a leaderboard with one row per cell, in the order of the short numbers.

        Parameters
        ----------
        table : {"calibration", "scaling"}
            Calibration errors of rewards, or accuracies, budgets and costs of strategies.
        llm, prm, calibrator, dataset, strategy : str or sequence of str, optional
            Keep only cells with these names, and cells without a plugin of the kind: a strategy without a PRM is a
            baseline for every PRM.

        Returns
        -------
        DataFrame
            Columns cell_id, number, dataset, llm, prm, strategy, target, level and calibrator; for each metric
            ``<metric>``, ``<metric>_low`` and ``<metric>_high`` (95% interval) and ``<metric>_standing`` ("best",
            "tied", "worse" or missing); then rows, questions, independent, status and reason. Metrics are described in
            :attr:`metrics`.

        Raise PrmcalError if there is no such table.
        """
        if table not in _TABLES:
            raise PrmcalError(f"'table' must be one of {', '.join(_TABLES)}. Got '{table}'.")
        return catalog.leaderboard(self._published, table, **_listed(names))

    @property
    def metrics(self) -> pd.DataFrame:
        """The metrics of both leaderboards, in the order of columns.

        Columns name, title, leaderboard, better ("lower", "higher", "near zero" or None) and description.
        """
        return pd.DataFrame([asdict(metric) for metric in catalog.metrics(self._published).values()])

    @property
    def cells(self) -> pd.DataFrame:
        """All cells of both leaderboards, in the order of their short numbers.

        Columns number, cell_id, leaderboard, dataset, llm, prm, calibrator, strategy, target, level, status ("done",
        "failed" or "pending") and reason (why it failed), among others.
        """
        return catalog.cells(self._published)

    def trajectories(
        self, cell: str | int, question_id: str | None = None, *, limit: int | None = None
    ) -> pd.DataFrame:
        """Return the trajectories that a cell was measured on, or only of one question, at most `limit`.

        Raises an UnknownCellError if there is no such cell, or several. The message names similar cells.

        Returns
        -------
        DataFrame
            Columns question_id, question, reference (the reference answer), question_level, trajectory, text, steps,
            tokens, finish_reason, answer, verdict and correct.
        """
        table = catalog.trajectories(self._published, self._cell(cell), question_id, limit=limit)
        return table.assign(text=table["text"].str.replace(STEP_END, ""))

    def prefixes(self, cell: str | int, question_id: str) -> pd.DataFrame:
        """Return every scored prefix of one question: its reward, success counts and calibrated rewards.

        Columns trajectory, step, logit, reward, over_long, successes, follow_ups, terminal, level and
        calibrated_reward, with one row per level beta. Raise UnknownCellError as :meth:`trajectories`.
        """
        return catalog.prefixes(self._published, self._cell(cell), question_id)

    def compare(self, a: str | int, b: str | int) -> CellComparison:
        """Compare two cells of one leaderboard and one data set on the same questions.

        Raises an UnknownCellError if a name means no cell or several, or an IncomparableCellsError if the cells cannot
        be compared.

        Returns
        -------
        CellComparison
            Its `table` has one row per metric: the values of both cells, B - A with its 95% interval, and the p value.
            Its `differing` has the questions on which they differ most.
        """
        return catalog.compare_cells(self._published, self._cell(a), self._cell(b))

    @property
    def _published(self) -> Path:
        return RunFolder(self.directory).results()

    def _cell(self, name: str | int) -> str:
        return find_cell(self._published, str(name))


def _listed(names: Mapping[str, Any]) -> dict[str, Any]:
    """Return lists of names by their kind, without absent kinds."""
    return {kind: [name] if isinstance(name, str) else list(name) for kind, name in names.items() if name is not None}


def run(
    grid: str | Path | Mapping[str, Any] | GridSpec,
    out: str | Path,
    *,
    limit: int | None = None,
    workers: int | None = None,
    plugins: Sequence[str | Path] = (),
    progress: bool = False,
    only: Mapping[str, str | Sequence[str]] | None = None,
    drop_cells: bool = False,
    cluster: ClusterSettings | None = None,
) -> Run:
    """Run a grid, as ``prmcal run`` does. Finished work in `out` is kept, so an interrupted run continues.

    Raises a GridError or a PluginError if the grid is wrong, or a plugin cannot be found, loaded or built. Raises a
    RunError if the folder is locked by another run or belongs to another grid, or finished cells would be deleted
    without `drop_cells`. Raises a ClusterError or a StorageError if the cluster cannot run the grid, or the disk is
    full. Finished work is kept.

    Parameters
    ----------
    grid : str, Path, mapping or GridSpec
        The name of a shipped grid such as ``"nano"``, the path of a grid file, or the content of such a file.
    out : str or Path
        The output folder: artifacts and the database.
    limit : int, optional
        Use only the first questions of every data set.
    workers : int, optional
        Number of worker processes; by default one for each GPU or core.
    plugins : sequence of str or Path
        Python files that register plugins. A file that was changed since the last call is loaded again. Plugins that
        are defined in the notebook cannot be used: worker processes do not have them.
    progress : bool, default False
        Whether the progress is written to standard error.
    only : mapping of str to str or sequence of str, optional
        Run only the work that cells with these names need, by their kind: ``{"llm": "weak", "prm": ["qwen",
        "shepherd"]}``. Kinds are llm, prm, calibrator, dataset and strategy. Other cells stay as they are.
    drop_cells : bool, default False
        Whether to delete finished cells that the grid no longer has, or that have changed and that `only` leaves out.
        Their artifacts stay.
    cluster : ClusterSettings, optional
        How to run on a Ray cluster, such as ``ClusterSettings("10.0.0.1:6379")``. By default on this machine.

    Returns
    -------
    Run
        The results. Cells that failed have the status "failed" in :attr:`Run.cells`, with the reason.

    Notes
    -----
    SIGINT (Ctrl-C), SIGTERM and SIGHUP end the run. Finished work is recorded. Then the signal has its usual effect:
    Ctrl-C raises KeyboardInterrupt.

    Examples
    --------
    >>> import prmcal
    >>> prmcal.run("nano", "runs/nano", progress=True)  # doctest: +SKIP
    """
    if isinstance(grid, Mapping):
        grid = grid_of(grid, "The grid")
    spec = (grid if isinstance(grid, GridSpec) else read_grid(find_grid(str(grid)))).limited(limit)
    files = [*map(Path, plugins), *map(Path, spec.plugins)]
    for file in files:
        load_plugin_file(file)
    _require_files(spec)
    directory = Path(out)
    with ExitStack() as stack:
        executor = stack.enter_context(RayExecutor(directory, files, cluster)) if cluster else None
        count = executor.workers if executor is not None else workers or default_workers()
        stream, names = sys.stderr if progress else io.StringIO(), _listed(only or {})
        summary = run_grid(spec, directory, count, files, executor, stream=stream, only=names, drop_cells=drop_cells)
    if summary.ending in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.raise_signal(signal.Signals[summary.ending])
    return open_run(directory)


def _require_files(grid: GridSpec) -> None:
    """Raise PluginError if a plugin of the grid is defined in the notebook, where a worker process cannot load it."""
    for kind, specs in grid.entries.items():
        registered = KINDS[kind].names()
        for name in {spec.plugin for spec in specs} & registered.keys():
            if registered[name].startswith("__main__"):
                raise PluginError(
                    f"The {kind} '{name}' is defined in __main__, where worker processes do not find it. Write it into "
                    'a file of its own, and give the file: prmcal.run(..., plugins=["my_plugins.py"]).'
                )
