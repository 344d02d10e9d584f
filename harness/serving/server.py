"""The server from its start to its end."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from types import FrameType

import uvicorn

from prmcal.errors import PrmcalError
from prmcal.harness.inference.calibrated_prm import CalibratedPRM
from prmcal.harness.serving.app import Ending, create_app
from prmcal.harness.serving.bodies import Limits

_SECONDS_TO_TELL = 5
_BACKLOG = 2048


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address. Port 0 stands for any free port.

    Raises
    ------
    PrmcalError
        If the address does not exist or is in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends replies without delay only if the socket names its protocol. Each would otherwise take 40 ms longer.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise PrmcalError(
            f"The server cannot listen at {host} port {port}: {error.strerror}. Give another --host or --port."
        ) from error
    return listening


def run(prm: CalibratedPRM, limits: Limits, listening: socket.socket) -> None:
    """Answer requests until a signal ends the server.

    The first SIGINT or SIGTERM lets running requests finish for some time and then tells them. The second ends at once.

    Raises
    ------
    PrmcalError
        If the models cannot be loaded.
    """
    ending, failures = Ending(), list[Exception]()

    def fail(error: Exception) -> None:
        failures.append(error)
        server.should_exit = True

    config = uvicorn.Config(
        create_app(prm, limits, ending, fail),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(limits.grace_seconds) + _SECONDS_TO_TELL,
    )
    server = _Server(config, ending, limits.grace_seconds)
    asyncio.run(_serve(server, listening))
    if failures:
        raise failures[0]


async def _serve(server: _Server, listening: socket.socket) -> None:
    await server.serve([listening])
    if (
        server.ending.begun
    ):  # A thread with a model may still run. Nothing can stop it, and Python would wait for it.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


class _Server(uvicorn.Server):
    """A server that tells running requests when their time is over, and whose process then ends with 0."""

    def __init__(self, config: uvicorn.Config, ending: Ending, grace_seconds: float) -> None:
        super().__init__(config)
        self.ending, self._grace_seconds = ending, grace_seconds

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end. uvicorn would send itself the signal again when it is done."""
        if self.should_exit:
            self.ending.begin()
            return
        self.should_exit = True
        asyncio.get_running_loop().call_later(self._grace_seconds, self.ending.begin)
