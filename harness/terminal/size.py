"""The size of the terminal."""

from __future__ import annotations

import shutil

__all__ = ["NARROWEST", "UNLIMITED", "terminal_height", "terminal_width"]

NARROWEST = 60
"""The smallest width that output is made for, in columns."""
UNLIMITED = 100_000
"""A width that nothing fills."""
_PIPE = (100, 24)


def terminal_width() -> int:
    """Return the width of the output in columns: of COLUMNS, of the terminal, or 100 if there is no terminal."""
    return max(NARROWEST, shutil.get_terminal_size(_PIPE).columns)


def terminal_height() -> int:
    """Return the height of the terminal in lines."""
    return shutil.get_terminal_size(_PIPE).lines
