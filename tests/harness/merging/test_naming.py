"""The order of names, and the words that tell things of one name apart."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from prmcal.harness.merging.naming.differences import words_apart
from prmcal.harness.merging.naming.order import merged_order
from prmcal.harness.storage.store import content_key

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


VALUES = st.one_of(st.none(), st.integers(0, 3), st.text(max_size=40), st.lists(st.integers(), max_size=2))
DESCRIBED = st.lists(
    st.dictionaries(st.sampled_from(["seed", "bins", "version", "a", "b"]), VALUES), min_size=2, max_size=5
)


@given(DESCRIBED)
def test_words_tell_different_things_apart(described: list[dict[str, object]]) -> None:
    words = words_apart(described)
    names = sorted({name for each in described for name in each})
    told = [content_key([each.get(name) for name in names]) for each in described]
    assert len(set(zip(words, told, strict=True))) == len(set(words))  # No words for two things.


def test_words_say_what_differs() -> None:
    assert words_apart([{"seed": 1, "bins": 10}, {"seed": 2, "bins": 10}]) == ["seed 1", "seed 2"]
    assert words_apart([{"seed": 1}]) == [""]
