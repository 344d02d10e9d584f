"""The command that a user wants to be run at the end of a run."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from prmcal.db.text.formats import duration
from prmcal.harness.execution.run import RunSummary

__all__ = ["run_on_finish"]

_MOST_SECONDS = 600.0


def run_on_finish(command: str, directory: Path, summary: RunSummary, seconds: float = _MOST_SECONDS) -> str:
    """Run a shell command that is told by its environment how the run ended.

    The variables are PRMCAL_RUN (the absolute path of the output folder), PRMCAL_STATE (done, failed, interrupted or
    ended), PRMCAL_CELLS_DONE and PRMCAL_CELLS_FAILED.

    Parameters
    ----------
    command : str
    directory : Path
        The output folder.
    summary : RunSummary
    seconds : float
        The time after which the command is killed, with all processes that it started.

    Returns
    -------
    str
        A sentence that says how the command failed. Empty if it did not.
    """
    variables = {
        "PRMCAL_RUN": str(directory.resolve()),
        "PRMCAL_STATE": summary.state,
        "PRMCAL_CELLS_DONE": str(summary.done_cells),
        "PRMCAL_CELLS_FAILED": str(summary.failed_cells),
    }
    process = subprocess.Popen(
        command, shell=True, stdin=subprocess.DEVNULL, env=os.environ | variables, process_group=0
    )
    try:
        code = process.wait(seconds)
    except BaseException as error:
        with suppress(ProcessLookupError):  # The whole group has ended.
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return f"The command of --on-finish took longer than {duration(seconds)} and was killed."
    return f"The command of --on-finish failed with exit code {code}." if code else ""
