"""The options of a run on a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from prmcal.errors import PrmcalError

if TYPE_CHECKING:
    from prmcal.harness.cluster.settings import ClusterSettings

__all__ = ["AddressOption", "ExecutorOption", "NodeCacheOption", "SharedFolderOption", "cluster_settings"]

_EXECUTORS = ("local", "ray")

ExecutorOption = Annotated[
    str,
    typer.Option(
        "--executor",
        metavar="NAME",
        help="Where the workers are: local (processes on this machine) or ray (on the nodes of a Ray cluster).",
        autocompletion=lambda: list(_EXECUTORS),
    ),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="The head node of the Ray cluster. Default: the cluster that runs on this machine, or a new one.",
    ),
]
SharedFolderOption = Annotated[
    bool | None,
    typer.Option(
        "--shared-folder/--no-shared-folder",
        help="Whether all nodes of the cluster share DIR. Default: each node finds out. A node that does not share it "
        "receives inputs, keeps them in a cache, and sends its results back.",
    ),
]
NodeCacheOption = Annotated[
    float | None,
    typer.Option(
        "--node-cache",
        metavar="GB",
        min=0,
        help="The size of the cache of a node that does not share DIR. Default: 50. The node's PRMCAL_NODE_CACHE "
        "names its folder.",
    ),
]


def cluster_settings(
    executor: str, address: str | None, workers: int | None, shared: bool | None, cache: float | None
) -> ClusterSettings | None:
    """Return how the run uses a cluster; None for a run on this machine.

    Raises
    ------
    PrmcalError
        If there is no such executor, or an option belongs to another one.
    """
    if executor not in _EXECUTORS:
        raise PrmcalError(f"--executor must be {' or '.join(_EXECUTORS)}. Got '{executor}'.")
    if executor == "ray":
        from prmcal.harness.cluster.settings import ClusterSettings

        given = {} if cache is None else {"cache_limit": int(cache * 1e9)}
        return ClusterSettings(address, workers, shared, **given)
    options = {"--address": address, "--shared-folder": shared, "--node-cache": cache}
    misplaced = next((name for name, value in options.items() if value is not None), None)
    if misplaced:
        raise PrmcalError(f"{misplaced} is for runs on a cluster. Add --executor ray.")
    return None
