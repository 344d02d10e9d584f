"""``prmcal dashboard``: the web server takes the place of the command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

__all__ = ["serve"]


def serve(directories: Sequence[Path], port: int, headless: bool) -> NoReturn:
    """Replace this process by the dashboard, so that whatever ends the command ends the server.

    Parameters
    ----------
    directories : sequence of Path
        The output folders of one or more runs.
    port : int
        The server's port on this machine.
    headless : bool
        Whether to leave the browser closed.
    """
    # -P keeps the current folder off the import path: a module there must not replace an installed one.
    command = [sys.executable, "-P", "-m", "prmcal.dashboard", *map(str, directories), "--port", str(port)]
    os.execv(sys.executable, [*command, *(["--headless"] if headless else [])])
