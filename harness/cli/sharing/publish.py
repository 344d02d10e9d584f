"""``prmcal publish``: what was written, and which submissions have no licence, in words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from prmcal.db.text.formats import counted
from prmcal.harness.site.publish import Targets, publish, without_licence
from prmcal.harness.terminal import wrapped

__all__ = ["published"]

_MOST_NAMED = 10


def published(directory: Path, targets: Targets, width: int | None = None) -> Iterator[str]:
    """Publish a merged leaderboard, and yield what was written as lines of text. A warning about licences follows.

    Parameters
    ----------
    directory : Path
        The folder of a merged leaderboard.
    targets : Targets
    width : int, optional
        Default: the width of the terminal.

    Raises
    ------
    PrmcalError
        See :func:`prmcal.harness.site.publish.publish`.
    """
    yield from publish(directory, targets)
    names = without_licence(directory)
    if names:
        have, them = ("has", "it") if len(names) == 1 else ("have", "them")
        more = len(names) - _MOST_NAMED
        shown = ", ".join(names[:_MOST_NAMED]) + (f", and {more:,} more" if more > 0 else "")
        yield wrapped(
            f"prmcal: warning: {counted(len(names), 'submission')} {have} no licence, so others may not publish "
            f"{them}: {shown}.",
            width,
            hanging="  ",
        )
