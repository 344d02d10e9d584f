"""``prmcal dashboard``: the web server takes the place of the command."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

__all__ = ["serve"]


def serve(directory: Path, port: int, headless: bool) -> NoReturn:
    """Replace this process by the dashboard, so that whatever ends the command ends the server.

    Parameters
    ----------
    directory : Path
        The output folder of a run.
    port : int
        The server's port on this machine.
    headless : bool
        Whether to leave the browser closed.
    """
    # -P keeps the current folder off the import path: a module there must not replace an installed one.
    command = [sys.executable, "-P", "-m", "prmcal.dashboard", str(directory), "--port", str(port)]
    os.execv(sys.executable, [*command, *(["--headless"] if headless else [])])
