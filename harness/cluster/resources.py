"""How many workers each node gets, and of which kind. A worker has whole GPUs, or one core."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prmcal.errors import ClusterError
from prmcal.harness.cluster.nodes import Node
from prmcal.harness.execution.machine import gpus_of
from prmcal.harness.planning.gpu_hours import billions, checkpoint_of
from prmcal.harness.planning.grid import GridSpec
from prmcal.registry.models.checkpoints import SPREAD

__all__ = ["Slot", "check_gpus", "slots_of"]

_SMALLEST_ON_A_GPU = 0.5
"""Billions of parameters above which a model is not run on a processor, unless the grid says so."""


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """The place of one worker.

    Attributes
    ----------
    number : int
        Its number among the slots of this kind on its node.
    node : str
        The id of the node.
    gpus : int
        The GPUs that it needs; 0 for a core.
    models : bool or None
        Whether it computes shards that need a model (True), those that need none (False), or both (None).
    """

    number: int
    node: str
    gpus: int
    models: bool | None


def slots_of(grid: GridSpec, nodes: Mapping[str, Node], workers: int | None) -> list[Slot]:
    """Return the places of all workers.

    If a node has GPUs, models run on GPUs only: every worker with GPUs gets as many as the largest model of the grid is
    spread over. Beside each of them one worker without GPUs computes what needs no model. Nodes without GPUs have a
    worker on each core.

    Parameters
    ----------
    grid : GridSpec
    nodes : mapping of str to Node
    workers : int, optional
        The most workers that compute models, spread over the nodes. By default as many as there is room for.

    Raises
    ------
    ClusterError
        If there are fewer GPUs than `workers` need. Workers do not share GPUs.
    """
    on_gpus = any(node.gpus for node in nodes.values())
    with_models, others = [], []
    for node in nodes.values():
        if not on_gpus:
            with_models += [Slot(number, node.id, 0, None) for number in range(node.cpus)]
            continue
        needed = _gpus_needed(grid, node.gpus)
        count = min(node.gpus // needed, node.cpus)
        with_models += [Slot(number, node.id, needed, True) for number in range(count)]
        left = node.cpus - count
        others += [
            Slot(number, node.id, 0, False) for number in range(min(left, count) if node.gpus else left)
        ]
    if workers is not None and on_gpus and workers > len(with_models):
        raise ClusterError(
            f"--workers {workers} is too many: the GPUs of the cluster are enough for {len(with_models)}. A worker has "
            f"whole GPUs. Use --workers {len(with_models)}, or leave it out."
        )
    # Sorted by their numbers, so that the first workers are on different nodes.
    return [*sorted(with_models)[:workers], *sorted(others)]


def check_gpus(grid: GridSpec, nodes: Iterable[Node]) -> None:
    """Check that the cluster has the GPUs that the models of a grid need.

    Raises
    ------
    ClusterError
        If a model is too large for the nodes. The message says what it needs.
    """
    most = max((node.gpus for node in nodes), default=0)
    for kind, spec in [*(("llm", spec) for spec in grid.llms), *(("prm", spec) for spec in grid.prms)]:
        device = str(spec.arguments.get("device", ""))
        needed = 1 if device == SPREAD else gpus_of(spec)
        size = billions(checkpoint_of(kind, spec.reference())) or 0.0
        large = size >= _SMALLEST_ON_A_GPU and device != "cpu"
        if not most and (large or needed > 1 or device.startswith(("cuda", SPREAD))):
            told = f" has {size:g} billion parameters and" if size else ""
            raise ClusterError(
                f"{spec.name}{told} needs a GPU, and no node of the cluster has one. Add nodes with GPUs, or set "
                "'device: cpu' among its arguments in the grid file."
            )
        if most and needed > most:
            raise ClusterError(
                f"{spec.name} is spread over {needed} GPUs, and the largest node of the cluster has {most}. A model "
                "must fit on one node. Lower its 'tensor_parallel'."
            )


def _gpus_needed(grid: GridSpec, gpus: int) -> int:
    specs = [*grid.llms, *grid.prms]
    if any(spec.arguments.get("device") == SPREAD for spec in specs):
        return max(1, gpus)
    return max(gpus_of(spec) for spec in specs)
