"""The checks for every plugin."""

from __future__ import annotations

import json

from prmcal.registry.contracts.plugin import Plugin

__all__ = ["CHECKS", "expect"]


def expect(condition: bool, message: str) -> None:
    """Fail the check with `message` unless the condition holds."""
    if not condition:
        raise AssertionError(message)


def check_identity_is_json_data(plugin: Plugin) -> None:
    """The identity is JSON data and always the same, since job keys depend on it."""
    identity = plugin.identity()
    try:
        text = json.dumps(identity, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(
            f"identity() must be JSON data, but it cannot be written: {error}. Got {identity!r}."
        ) from error
    again = json.dumps(plugin.identity(), sort_keys=True)
    expect(text == again, f"identity() must not change between calls. Got {text}, then {again}.")


CHECKS = (check_identity_is_json_data,)
