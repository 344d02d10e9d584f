"""Checkpoints of the hub that are not on this machine."""

from __future__ import annotations

from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.models.checkpoints import is_on_this_machine

__all__ = ["absent_checkpoint"]


def absent_checkpoint(plugin: Plugin) -> str | None:
    """Return the hub id of the first checkpoint that a plugin needs and this machine does not have, or None."""
    absent = (each for each in plugin.checkpoints if not is_on_this_machine(each))
    return next(absent, None)
