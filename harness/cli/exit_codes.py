"""The exit codes of ``prmcal``, and the sentence of the help that explains them.

The modules of this room return them. What a command does (`prmcal.harness.commands`) only reports what happened.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["EXPLANATION", "ExitCode"]


class ExitCode(IntEnum):
    """How a command ended.

    Python itself ends with 1 after an error that prmcal does not expect.
    """

    DONE = 0
    """Everything was done."""
    BAD_INPUT = 2
    """An argument, a file or a folder was wrong. The message says what to do. Nothing was done."""
    FAILED_CELLS = 3
    """The grid was run to its end, but cells failed, and `prmcal status` says why. Or a question of `ask` failed."""
    FAILED_CHECKS = 4
    """A check of `prmcal check` or `prmcal verify` failed, or a grid needs what `prmcal doctor` did not find."""
    TIME_OVER = 5
    """The run reached --max-hours before it was finished. Finished work is kept."""
    HUNG_UP = 129
    """SIGHUP: the terminal was closed. Finished work is kept."""
    INTERRUPTED = 130
    """Ctrl-C. Finished work is kept."""
    TERMINATED = 143
    """SIGTERM: a scheduler ended the run. Finished work is kept."""


EXPLANATION = (
    "Exit codes: 0 done, 2 bad input, 3 cells or questions failed (run, status, ask), 4 checks failed (check, doctor, "
    "verify), 5 not finished within --max-hours, 130 interrupted, 143 ended by SIGTERM (129 by SIGHUP)."
)
