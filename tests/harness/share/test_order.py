"""The order of names on a merged leaderboard."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from prmcal.harness.share.conditions import merged_order

ORDERS = st.lists(st.permutations("abcde").flatmap(lambda names: st.integers(1, 5).map(lambda n: names[:n])))


@given(ORDERS)
def test_the_order_is_a_function_of_the_set(orders: list[list[str]]) -> None:
    found = merged_order(orders)
    assert sorted(found) == sorted({name for order in orders for name in order})
    assert merged_order(orders[::-1]) == found == merged_order([*orders, *orders])


@given(st.permutations("abcdef"), st.data())
def test_parts_of_one_order_give_this_order(names: list[str], data: st.DataObject) -> None:
    parts = data.draw(
        st.lists(st.lists(st.sampled_from(names), unique=True).map(lambda p: sorted(p, key=names.index)))
    )
    majority = [names] * 2
    assert merged_order([*parts, *majority, names[::-1]]) == names


def test_a_circle_of_majorities_has_one_order() -> None:
    circle = ["abc", "bca", "cab"]
    assert {tuple(merged_order(order)) for order in permutations(circle)} == {("a", "b", "c")}
