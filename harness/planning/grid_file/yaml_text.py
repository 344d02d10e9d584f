"""YAML from elsewhere: parsed safely, and within limits."""

from __future__ import annotations

from typing import Any

import yaml

__all__ = ["parse_yaml"]

_MOST_VALUES = 100_000


def parse_yaml(text: str) -> Any:
    """Return the data of a YAML document.

    Raises
    ------
    ValueError
        If the document has more than 100,000 values. A short document has as many if aliases repeat other aliases.
    Exception
        Any other error of the parser, if the document is not valid.
    """
    loader = yaml.SafeLoader(text)
    loader.name = "the text"  # as messages name it
    try:
        root = loader.get_single_node()
        if root is None:
            return None
        if _values(root, {}) > _MOST_VALUES:
            raise ValueError(f"it has more than {_MOST_VALUES:,} values")
        return loader.construct_document(root)
    finally:
        loader.dispose()


def _values(node: yaml.Node, known: dict[int, int]) -> int:
    """Return how many values a node and all nodes in it have, those of an alias as often as it is used.

    Raises ValueError if a node contains itself, or has half of a surrogate pair, which no file can hold. `known` has
    the numbers of nodes that were counted before.
    """
    if isinstance(node, yaml.ScalarNode):
        node.value.encode()
        return 1
    if id(node) not in known:
        known[id(node)] = 0
        parts = (
            [part for pair in node.value for part in pair]
            if isinstance(node, yaml.MappingNode)
            else node.value
        )
        known[id(node)] = 1 + sum(_values(part, known) for part in parts)
    if not known[id(node)]:
        raise ValueError("a list or mapping contains itself")
    return known[id(node)]
