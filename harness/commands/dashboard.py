"""``prmcal dashboard``: the web server takes the place of the command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from prmcal.db.run_folder import LOCK_FILE, RECORD_FILE, published_path
from prmcal.errors import RunError

__all__ = ["check_folder", "serve"]


def serve(
    directories: Sequence[Path],
    *,
    host: str = "127.0.0.1",
    port: int = 8501,
    base_path: str = "",
    headless: bool = False,
) -> NoReturn:
    """Replace this process by the dashboard, so that whatever ends the command ends the server.

    Parameters
    ----------
    directories : sequence of Path
        The output folders of runs.
    host : str
        The address that the server listens at.
    port : int
        The server's port on this machine.
    base_path : str
        The path below which a proxy serves the pages; empty for none.
    headless : bool
        Whether to leave the browser closed.

    Raises
    ------
    RunError
        If a folder does not exist, or holds other files than those of a run.
    """
    for directory in directories:
        check_folder(directory)
    # -P keeps the current folder off the import path: a module there must not replace an installed one.
    command = [sys.executable, "-P", "-m", "prmcal.dashboard", *map(str, directories)]
    command += ["--host", host, "--port", str(port), "--base-path", base_path]
    os.execv(sys.executable, [*command, *(["--headless"] if headless else [])])


def check_folder(directory: Path) -> None:
    """Check that a folder has a run, or is empty so that a run can fill it.

    Raises
    ------
    RunError
        If it is neither.
    """
    if not directory.is_dir():
        what = "is a file" if directory.exists() else "does not exist"
        raise RunError(
            f"{directory} {what}. Give the output folder of a run. To start one: prmcal run GRID --out {directory}"
        )
    if (directory / RECORD_FILE).exists() or published_path(directory).exists():
        return
    if any(path.name != LOCK_FILE for path in directory.iterdir()):
        raise RunError(
            f"{directory} holds files, but none of a run. Give the folder after --out of `prmcal run`, or an empty one."
        )
