"""How a run uses a cluster."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ClusterSettings"]


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """How a run uses a cluster.

    Attributes
    ----------
    address : str or None
        ``HOST:PORT`` of the head node; None for the cluster on this machine, or a new one.
    workers : int or None
        The most workers with models; None for as many as there is room for.
    shared : bool or None
        Whether all nodes share the folder of the run; None to find out.
    cache_limit : int
        The size in bytes of the cache of a node that does not share the folder.
    """

    address: str | None = None
    workers: int | None = None
    shared: bool | None = None
    cache_limit: int = 50 * 10**9
