"""``prmcal export-prm``: the calibrated PRM of a cell, as a checkpoint."""

from __future__ import annotations

from pathlib import Path

from prmcal.db.cell_names import find_cell
from prmcal.db.queries.provenance import cell_row
from prmcal.db.reader import reading
from prmcal.errors import PrmcalError
from prmcal.harness.commands.files.card import add_results
from prmcal.harness.jobs.context import plugin_guard
from prmcal.harness.jobs.parameters import FitParameters
from prmcal.harness.planning.again import existing_plan, load_plugins_of
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.keys import ArtifactRef
from prmcal.harness.storage.store import Store
from prmcal.registry.plugins import calibrators, prms

__all__ = ["export_calibrated_prm"]


def export_calibrated_prm(directory: Path, name: str, out: Path, level: float) -> None:
    """Write the PRM of a cell with the changes that the cell's calibrator makes to it, and its results on its card.

    Parameters
    ----------
    directory : Path
        The output folder of a run.
    name : str
        A name of a cell with a calibrator that fine-tunes the PRM, as :func:`prmcal.db.cell_names.find_cell` takes it.
    out : Path
        The folder of the checkpoint: new or empty.
    level : float
        The level whose prediction is the reward of the checkpoint.

    Raises
    ------
    PrmcalError
        If there is no such cell, its calibrator is not fitted, does not fine-tune the PRM or does not predict `level`,
        or `out` is not empty.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise PrmcalError(f"{out} already exists. Choose a new or an empty folder for --out.")
    folder = RunFolder(directory)
    cell_id = find_cell(folder.results(), name)
    ref, fit = _fit(existing_plan(folder), cell_id, directory)
    store = Store(directory)
    if store.manifest(ref.kind, ref.key) is None:
        raise PrmcalError(
            f"The calibrator of the cell '{cell_id}' is not fitted yet. Run the grid again to continue it."
        )
    load_plugins_of(folder)
    calibrator, prm = fit.calibrator.build(calibrators), fit.prm.build(prms)
    with plugin_guard("calibrator", fit.calibrator.name, "export the PRM"):
        calibrator.load(store.folder(ref.kind, ref.key)).export(prm, out, level)
    with reading(folder.results()) as source:
        row = cell_row(source, cell_id)
    add_results(out / "README.md", folder.results(), row)


def _fit(plan: Plan, cell_id: str, directory: Path) -> tuple[ArtifactRef, FitParameters]:
    """Return the shard that fits the calibrator of a cell: its artifact and its parameters."""
    jobs = [cell.job for cell in plan.cells if cell.cell_id == cell_id]
    if not jobs:
        raise PrmcalError(
            f"There is no cell '{cell_id}' in {directory}. `prmcal leaderboard {directory}` lists them."
        )
    while jobs:
        job = jobs.pop()
        for shard in job.shards:
            if isinstance(shard.parameters, FitParameters):
                return shard.ref, shard.parameters
        jobs += job.inputs
    raise PrmcalError(f"The cell '{cell_id}' has no calibrator. Choose a cell with a calibrator.")
