"""Plugins of which each makes one mistake, by kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

C = TypeVar("C", bound=type)


def mistake(check: str, explanation: str) -> Callable[[C], C]:
    """Mark a plugin with a part of the name of the check that finds its mistake, and a pattern of what it says."""

    def marked(cls: C) -> C:
        cls.found_by = check, explanation  # type: ignore[attr-defined]
        return cls

    return marked
