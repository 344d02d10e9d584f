"""``prmcal serve``: a calibrated PRM behind HTTP."""

from __future__ import annotations

import importlib.util
import ipaddress
import json
import os
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from prmcal.errors import PrmcalError

if TYPE_CHECKING:
    from prmcal.harness.inference.calibrated_prm import CalibratedPRM
    from prmcal.harness.serving.limits import Limits

__all__ = ["check_installed", "serve_calibrated"]

_PACKAGES = ("fastapi", "uvicorn")
_EXAMPLE = {
    "rows": [
        {"question": "Begin at 67, keeping two digits. a) subtract 4, b) add 1.", "steps": ["a) 67-4=63"]}
    ]
}


def serve_calibrated(
    source: str,
    cell: str | None,
    names: Mapping[str, str | None],
    *,
    host: str,
    port: int,
    limits: Limits,
    with_parent: bool = False,
) -> None:
    """Serve a calibrated PRM until a signal ends the server.

    Parameters
    ----------
    source, cell
        As for :func:`prmcal.harness.inference.sources.loading.load`.
    names : mapping
        Names of an LLM, a PRM and a calibrator, which limit the choice of the cell.
    host : str
        The address that the server listens at.
    port : int
        Its port; 0 for any free one.
    limits : Limits
    with_parent : bool
        Whether the server ends when its standard input is closed. Then whatever started it can keep the other end of a
        pipe, and the server ends with it, however it ends.

    Raises
    ------
    PrmcalError
        If the run or the cell cannot be used, the address is in use, or the models cannot be loaded.
    """
    from prmcal.harness.inference.sources.loading import load
    from prmcal.harness.machine.parent import end_with
    from prmcal.harness.serving.server import bound_socket, run

    # Without it, threads of torch that wait for work spin, which makes a busy machine several times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if with_parent:
        end_with(0)
    listening = bound_socket(host, port)
    with load(source, cell, **names) as prm:
        print(_first_lines(prm, *listening.getsockname()[:2]), flush=True)
        run(prm, limits, listening)


def check_installed() -> None:
    """Check that the packages of the server are installed.

    Raises
    ------
    PrmcalError
        If they are not.
    """
    if any(importlib.util.find_spec(name) is None for name in _PACKAGES):
        raise PrmcalError("The server needs FastAPI and uvicorn. Install them: pip install 'prmcal[serve]'")


def _first_lines(prm: CalibratedPRM, host: str, port: int) -> str:
    """Return what is served, where, and how to try it."""
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    llm = f", for {prm.llm}," if prm.llm else ""
    body = shlex.quote(json.dumps(_EXAMPLE))
    lines = [
        f"Serving {prm.prm} calibrated by {prm.calibrator}{llm} at {address}. Ctrl-C ends it.",
        *([prm.chosen_by] if prm.chosen_by else []),
        f"Try it: curl {address}/score -H 'content-type: application/json' -d {body}",
    ]
    if not ipaddress.ip_address(host).is_loopback:
        lines.append(
            "Warning: other machines can reach this server, and it asks nobody for a password. Put a proxy with "
            "authentication before it, or leave out --host."
        )
    return "\n".join(lines)
