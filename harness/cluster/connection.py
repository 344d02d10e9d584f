"""The connection to a Ray cluster, or to a Ray of its own on this machine."""

import importlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prmcal.errors import ClusterError
from prmcal.registry.messages import excerpt


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The use of a cluster by a run."""

    address: str | None = None
    """``HOST:PORT`` of the head node; None for the cluster on this machine, or a new one."""
    workers: int | None = None
    """The most workers with models; None for as many as there is room for."""


_SECONDS_TO_CONNECT = 5.0
_LONGEST_CAUSE = 600  # Other versions are named in the lines after the first.
_SETTINGS = {
    # With `uv run` on the coordinator, Ray would start the workers in an environment of their own.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    # The workers set CUDA_VISIBLE_DEVICES themselves. Without this, Ray prints a warning about it.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Connect to a cluster while the block runs, and yield the module ``ray``.

    `address` is ``HOST:PORT`` of the head node. By default it is the cluster that runs on this machine, or a new Ray on
    this machine that ends with the run.

    Raises a ClusterError if Ray is not installed, nobody answers at the address, or the versions of Ray or Python
    differ.
    """
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    if address is not None:
        _check_listening(address)
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError as error:
        raise ClusterError(
            "--executor ray needs Ray. Install it in a clone of prmcal: pip install '.[ray]'."
        ) from error
    if ray.is_initialized():
        yield ray  # It belongs to the program that runs the grid, such as a notebook.
        return
    quiet = {"log_to_driver": False, "logging_level": "error", "configure_logging": True}
    try:
        ray.init(address=address, include_dashboard=False, **quiet)
    except (ConnectionError, RuntimeError, TimeoutError, ValueError) as error:
        where = f"the cluster at {address}" if address else "Ray on this machine"
        why = excerpt(str(error) or type(error).__name__, _LONGEST_CAUSE)
        raise ClusterError(
            f"prmcal cannot connect to {where}: {why.rstrip('.')}. If the cluster was started with a token, set "
            "RAY_AUTH_MODE=token, and copy ~/.ray/auth_token from its head node."
        ) from error
    try:
        # For each node that is lost, Ray prints the end of that node's log. The log of the run has a sentence instead.
        with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
            yield ray
    finally:
        ray.shutdown()


def _check_listening(address: str) -> None:
    """Raise a ClusterError unless somebody listens at ``HOST:PORT``. Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdigit() or int(port) > 65535:
        raise ClusterError(
            f"--address must be HOST:PORT of the head node, such as 10.0.0.1:6379. Got {address!r}."
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS_TO_CONNECT).close()
    except OSError as error:
        raise ClusterError(
            f"Nobody listens at {address} ({error.strerror or error}). Start the head node: "
            f"ray start --head --port {port}. `ray status` shows the address of a cluster."
        ) from error
