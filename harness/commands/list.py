"""``prmcal list``: the registered plugins."""

from __future__ import annotations

from prmcal.harness.commands.output import one_of
from prmcal.harness.terminal.tables import text_table
from prmcal.registry.plugins import KINDS

__all__ = ["render_plugins"]


def render_plugins(kind: str | None) -> str:
    """Return the registered plugins with their classes: a table for each kind, or for one of them.

    Raises
    ------
    PrmcalError
        If there is no such kind.
    """
    if kind is not None:
        one_of("KIND", kind, list(KINDS))
    return "\n\n".join(
        text_table([each, "class"], [[name, target] for name, target in registry.names().items()])
        for each, registry in KINDS.items()
        if kind in (None, each)
    )
