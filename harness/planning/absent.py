"""What a grid names that is not on this machine: models and data sets of the hub."""

from __future__ import annotations

from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.models.checkpoints import is_on_this_machine

__all__ = ["absent_checkpoint"]

_CHECKPOINTS = ("checkpoint", "tokenizer")


def absent_checkpoint(plugin: Plugin) -> str | None:
    """The hub id of the first checkpoint that a plugin needs and this machine lacks; None if there is none."""
    for attribute in _CHECKPOINTS:
        checkpoint = getattr(plugin, attribute, None)
        if isinstance(checkpoint, str) and not is_on_this_machine(checkpoint):
            return checkpoint
    return None
