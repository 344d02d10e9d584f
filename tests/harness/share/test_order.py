"""The order of names on a merged leaderboard."""

from __future__ import annotations

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
def test_parts_of_one_order_and_the_whole_give_this_order(names: list[str], data: st.DataObject) -> None:
    parts = data.draw(
        st.lists(st.lists(st.sampled_from(names), unique=True).map(lambda p: sorted(p, key=names.index)))
    )
    assert merged_order([*parts, *[names] * 2, names[::-1]]) == names


def test_a_name_that_the_longest_order_lacks_follows_its_predecessor() -> None:
    assert merged_order(["abc", "bx", "yc"]) == ["y", "a", "b", "x", "c"]
