"""``prmcal list``: the registered plugins."""

from __future__ import annotations

from prmcal.harness.commands.output import one_of, text_table
from prmcal.registry.plugins import KINDS

__all__ = ["render_plugins"]


def render_plugins(kind: str | None) -> str:
    """Return a table of the registered plugins, of one kind or of all, with their classes.

    Raises
    ------
    PrmcalError
        If there is no such kind.
    """
    if kind is not None:
        one_of("KIND", kind, list(KINDS))
    rows = [
        [each, name, target]
        for each, registry in KINDS.items()
        if kind in (None, each)
        for name, target in registry.names().items()
    ]
    return text_table(["kind", "name", "class"], rows)
