"""Trajectories are packed into token trees, and trees of similar size into batches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from prmcal.registry.prms.token_tree import (
    TokenizedTrajectory,
    batch_by_size,
    pack_trajectories,
    token_tree_size,
)

SIZES = st.lists(st.integers(0, 50), max_size=30)
IDS = st.lists(st.integers(0, 2), min_size=1, max_size=8).map(tuple)


@given(SIZES, st.integers(1, 200), st.sampled_from((0.0, 0.75, 1.0)))
def test_batches_hold_every_tree_once_within_their_limits(sizes: list[int], limit: int, least_share: float) -> None:
    batches = batch_by_size(sizes, limit, least_share)
    assert sorted(index for batch in batches for index in batch) == list(range(len(sizes)))
    for batch in batches:
        largest = max(sizes[index] for index in batch)
        assert len(batch) == 1 or largest * len(batch) <= limit
        assert all(sizes[index] >= least_share * largest for index in batch)


@given(st.lists(st.lists(IDS, min_size=1, max_size=4).map(sorted), max_size=8).map(sorted), st.integers(1, 40))
def test_a_tree_holds_neighbours_up_to_its_size(trajectories: list[list[tuple[int, ...]]], limit: int) -> None:
    packed = pack_trajectories([TokenizedTrajectory.of(each) for each in trajectories], limit, 100)
    trees = [tree for batch in packed for tree in batch]
    assert sorted(index for tree in trees for index in tree) == list(range(len(trajectories)))
    for tree in trees:
        assert tree == list(range(tree[0], tree[-1] + 1))
        assert len(tree) == 1 or token_tree_size([ids for i in tree for ids in trajectories[i]]) <= limit


def test_prefixes_that_are_too_long_take_no_part() -> None:
    too_long = TokenizedTrajectory.of([None, None])
    half = TokenizedTrajectory.of([(1, 2), None])
    assert (too_long.sequences, too_long.size, half.sequences, half.size) == ([], 0, [(1, 2)], 2)
    assert pack_trajectories([too_long, half, too_long], 8, 8) == [[[0, 1, 2]]]
