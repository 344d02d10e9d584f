"""One order of names from the orders of several sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations

__all__ = ["merged_order"]


def merged_order(orders: Iterable[Sequence[str]]) -> list[str]:
    """Return all names in the order that most sources have.

    For each pair of names, the majority of the sources with both decides which comes first. Where no majority decides,
    the alphabet does. The result is a function of the set of orders: it does not depend on their order. If majorities
    contradict each other in a circle, the name with the fewest names before it is taken first.

    Parameters
    ----------
    orders : iterable of sequence of str
        The order of each source. Each name is in it once.
    """
    before: Counter[tuple[str, str]] = Counter()
    names: set[str] = set()
    for order in orders:
        names.update(order)
        before.update(combinations(order, 2))
    preceding = {
        name: {other for other in names if before[other, name] > before[name, other]} for name in names
    }
    found: list[str] = []
    while names:
        # Without a circle, a name without predecessors is always left.
        first = min(names, key=lambda name: (len(preceding[name] & names), name))
        names.remove(first)
        found.append(first)
    return found
