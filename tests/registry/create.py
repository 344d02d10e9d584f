"""Plugins with the type of their class."""

from typing import Any, TypeVar

from prmcal.registry.plugins import Registry

P = TypeVar("P")


def create_as(expected: type[P], registry: Registry[Any], name: str, **arguments: Any) -> P:
    """Create a plugin, and check its class."""
    plugin = registry.create(name, **arguments)
    assert isinstance(plugin, expected)
    return plugin
