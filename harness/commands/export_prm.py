"""From a cell of a run to the calibrated PRM behind it, as a checkpoint of its own."""

from __future__ import annotations

from pathlib import Path

from prmcal.errors import PrmcalError
from prmcal.harness.jobs.job import Job
from prmcal.harness.planning.again import plan_again
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import Store
from prmcal.registry.calibrators.lora.calibrator import QuantileLora
from prmcal.registry.plugins import KINDS
from prmcal.registry.prms.transformers import TransformersPRM

__all__ = ["export_calibrated_prm"]


def export_calibrated_prm(directory: Path, cell_id: str, out: Path) -> None:
    """Merge the adapter of a cell's calibrator into its PRM.

    Parameters
    ----------
    directory : Path
        The folder of a run.
    cell_id : str
        Any cell that rests on the calibrator `quantile-lora`.
    out : Path
        The checkpoint's folder, new or empty.

    Raises
    ------
    PrmcalError
        If there is no such cell, it rests on another calibrator, its fit is not done, or `out` holds files.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise PrmcalError(f"{out} is there already. Choose a new or an empty folder for --out.")
    record = RunFolder(directory).record()
    (shard,) = _fit(plan_again(record), cell_id, directory).shards
    store = Store(directory)
    if store.manifest(shard.ref.kind, shard.ref.key) is None:
        raise PrmcalError(
            f"The calibrator of the cell '{cell_id}' is not fitted yet. Run the grid again: it goes on."
        )
    given = {kind: shard.parameters[kind] for kind in ("calibrator", "prm")}
    calibrator, prm = (
        KINDS[kind].create(each["plugin"], **each["arguments"]) for kind, each in given.items()
    )
    if not isinstance(calibrator, QuantileLora) or not isinstance(prm, TransformersPRM):
        raise PrmcalError(
            f"The cell '{cell_id}' rests on the calibrator '{given['calibrator']['name']}', which leaves the PRM as it "
            "is. Choose a cell of quantile-lora: `prmcal leaderboard` lists them."
        )
    calibrator.load(store.folder(shard.ref.kind, shard.ref.key)).export(prm, out)


def _fit(plan: Plan, cell_id: str, directory: Path) -> Job:
    """The fit that a cell rests on."""
    jobs = [cell.job for cell in plan.cells if cell.cell_id == cell_id]
    if not jobs:
        raise PrmcalError(
            f"There is no cell '{cell_id}' in {directory}. `prmcal leaderboard {directory}` lists them."
        )
    while jobs:
        job = jobs.pop()
        if job.kind == "fit":
            return job
        jobs += job.inputs
    raise PrmcalError(f"The cell '{cell_id}' rests on no calibrator. Choose a cell of quantile-lora.")
