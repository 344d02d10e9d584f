"""The number of finished questions while they are answered."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

__all__ = ["Counter"]


class Counter:
    """A bar on standard error. Where that is no terminal, nothing is shown."""

    def __init__(self) -> None:
        console = Console(file=sys.stderr)
        self._progress = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            "questions",
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._progress.add_task("questions", total=None)

    def show(self, finished: int, total: int) -> None:
        """Show how many questions are finished."""
        self._progress.update(self._task, completed=finished, total=total)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
