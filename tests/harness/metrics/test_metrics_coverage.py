from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import norm

from prmcal.db.statistics.bootstrap import Bootstrap, estimate
from prmcal.registry.contracts.metric import PrefixRows
from prmcal.registry.metrics.coverage import Coverage
from prmcal.registry.plugins import metrics
from tests.arrays import Bools, Floats, Ints
from tests.measured import statistic, value

FOLLOW_UPS = 8

RewardOf = Callable[[Floats, float], Floats]
"""The reward that a PRM gives for what it sees, and the mean of the log-odds."""


def draw(
    reward_of: RewardOf,
    questions: int = 100,
    seed: int = 0,
    follow_ups: int | Ints = FOLLOW_UPS,
    centre: float = 0.0,
) -> tuple[PrefixRows, Floats]:
    """Prefixes of which the PRM sees the log-odds of p with an error of spread 1; rows and p."""
    random = np.random.default_rng(seed)
    question = np.repeat(np.arange(questions), random.integers(4, 20, questions))
    log_odds = random.normal(centre, 1.0, questions)[question] + random.normal(0, 1, len(question))
    seen = log_odds + random.normal(0, 1, len(question))
    p = expit(log_odds)
    n = np.broadcast_to(np.asarray(follow_ups), (len(p),))
    return PrefixRows(reward_of(seen, centre), random.binomial(n, p), n, question), p


def quantile(level: float) -> RewardOf:
    """The quantile of p given what the PRM sees: log-odds are normal around 2/3 of it, variance 2/3."""

    def reward(seen: Floats, centre: float) -> Floats:
        rewards: Floats = expit(centre + (seen - centre) * 2 / 3 + np.sqrt(2 / 3) * norm.ppf(level))
        return rewards

    return reward


def weighted_share(rows: PrefixRows, covered: Bools) -> float:
    counts = np.bincount(rows.question_index)
    return float(np.mean(np.bincount(rows.question_index, weights=covered.astype(float)) / counts))


WORLDS = {
    "lower bound": (quantile(0.1), 0.0, 0.01),
    "median": (quantile(0.5), 0.0, 0.01),
    "upper bound": (quantile(0.9), 0.0, 0.01),
    "lower bound, easy questions": (quantile(0.1), 2.0, 0.015),
    "overconfident": (lambda seen, _: expit(0.7 + 1.2 * seen), 0.0, 0.02),
}


@pytest.mark.parametrize("name", WORLDS)
def test_the_estimate_is_nearly_unbiased_where_the_share_of_rates_is_not(name: str) -> None:
    reward_of, centre, bias = WORLDS[name]
    found, naive, true = [], [], []
    for seed in range(60):
        rows, p = draw(reward_of, seed=seed, centre=centre)
        found.append(value("coverage", rows))
        naive.append(weighted_share(rows, rows.success_rate >= rows.reward))
        true.append(weighted_share(rows, p >= rows.reward))
    error = np.subtract(found, true)
    assert abs(error.mean()) < bias + 3 * error.std() / np.sqrt(60)
    if name != "median":  # at the median of a symmetric world noise carries as many over the reward as back
        assert abs(np.mean(naive) - np.mean(true)) > 3 * abs(error.mean())


def test_more_follow_ups_leave_less_bias() -> None:
    """Where rewards lie too near to 1 for 8 follow-ups to tell."""
    errors = {}
    for follow_ups in (8, 64):
        drawn = [draw(lambda seen, _: expit(2.5 + 1.5 * seen), 60, seed, follow_ups, 2.0) for seed in range(8)]
        errors[follow_ups] = np.mean(
            [value("coverage", rows) - weighted_share(rows, p >= rows.reward) for rows, p in drawn]
        )
    assert abs(errors[64]) < 0.6 * abs(errors[8])


def test_replicates_spread_as_the_estimate_does_when_questions_are_drawn_again() -> None:
    """They are sums of what prefixes add; nothing is fitted again, and it must come out the same."""
    rows, _ = draw(quantile(0.1), seed=1)
    metric = statistic("coverage", rows)
    random = np.random.default_rng(2)
    fast, full = [], []
    for _ in range(40):
        drawn = random.integers(0, len(rows.question_ids), len(rows.question_ids))
        fast.append(metric.values(np.bincount(drawn, minlength=len(rows.question_ids))[None].astype(float))[0])
        chosen = [np.flatnonzero(rows.question_index == question) for question in drawn]
        places = np.concatenate(chosen)
        again = PrefixRows(
            rows.reward[places],
            rows.successes[places],
            rows.follow_ups[places],
            np.repeat(np.arange(len(drawn)), [len(each) for each in chosen]),
        )
        full.append(value("coverage", again))
    assert np.corrcoef(fast, full)[0, 1] > 0.95
    assert np.std(fast) == pytest.approx(np.std(full), rel=0.15)


def test_where_p_is_known_nothing_is_estimated() -> None:
    rows = PrefixRows(np.array([0.3, 0.3, 1.0, 0.0]), np.array([0, 8, 8, 0]), np.full(4, 8), np.array([0, 0, 1, 1]))
    assert value("coverage", replace(rows, terminal=np.ones(4, dtype=bool))) == 0.75
    # A reward of 0 is covered by every p.
    low = PrefixRows(np.zeros(3), np.array([0, 3, 8]), np.full(3, 8), np.arange(3))
    assert value("coverage", low) == 1


def test_questions_count_the_same() -> None:
    question = np.array([0] * 9 + [1])
    successes = np.array([8] * 9 + [0])
    rows = PrefixRows(np.full(10, 0.5), successes, np.full(10, 8), question)
    metric = statistic("coverage", replace(rows, terminal=np.ones(10, dtype=bool)))
    assert metric.value() == 0.5 and metric.rows == 10 and len(metric.question_ids) == 2


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_rows_give_a_share_that_does_not_depend_on_their_order(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 30))
    reward = np.array(data.draw(st.lists(st.sampled_from([0.0, 1e-9, 0.3, 0.5, 1.0]), min_size=size, max_size=size)))
    n = np.array(data.draw(st.lists(st.sampled_from([1, 8, 64]), min_size=size, max_size=size)))
    k = np.array([data.draw(st.integers(0, int(each))) for each in n])
    question = np.array(data.draw(st.lists(st.integers(0, 4), min_size=size, max_size=size)))
    terminal = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    found = estimate(statistic("coverage", PrefixRows(reward, k, n, question, terminal)), Bootstrap(50))
    assert 0 <= found.value <= 1
    assert np.isnan(found.low) or 0 <= found.low <= found.high <= 1
    order = np.random.default_rng(0).permutation(size)
    shuffled = PrefixRows(reward[order], k[order], n[order], question[order], terminal[order])
    assert value("coverage", shuffled) == pytest.approx(found.value, abs=1e-9)


def test_a_higher_reward_is_covered_less() -> None:
    rows, _ = draw(quantile(0.5), seed=3)
    shares = [value("coverage", replace(rows, reward=rows.reward * factor)) for factor in (0.2, 0.6, 1.0)]
    assert shares[0] > shares[1] + 0.1 > shares[2] + 0.2


def test_a_point_estimate_stands_in_for_every_level() -> None:
    rows, _ = draw(quantile(0.5))
    metric = metrics.create("coverage")
    assert metric.columns("coverage", rows.levels) == {
        "coverage_0.1": 0.1,
        "coverage_0.5": 0.5,
        "coverage_0.9": 0.9,
    }
    assert all(rows.at(level) is rows for level in (0.1, 0.5, 0.9))
    assert metric.columns("mine", (0.05, 0.5)) == {"mine_0.05": 0.05, "mine_0.5": 0.5}


def test_each_level_has_the_coverage_of_its_rewards() -> None:
    (lower, _), (median, _) = draw(quantile(0.1)), draw(quantile(0.5))
    rewards = np.stack([lower.reward, median.reward], axis=1)
    both = replace(median, levels=(0.1, 0.5), level_rewards=rewards)
    assert value("coverage", both.at(0.1)) == value("coverage", lower)
    assert value("coverage", both.at(0.5)) == value("coverage", median)
    with pytest.raises(ValueError, match=r"does not predict beta = 0\.9\. It predicts: 0\.1, 0\.5"):
        both.at(0.9)
    with pytest.raises(ValueError, match="'level_rewards' must have shape"):
        replace(both, level_rewards=rewards[:, :1])


def test_terminal_needs_an_entry_for_every_prefix() -> None:
    rows, _ = draw(quantile(0.5))
    with pytest.raises(ValueError, match="All columns must have shape"):
        replace(rows, terminal=np.zeros(3, dtype=bool))


def test_the_words_of_a_level_say_which_and_what_is_ideal() -> None:
    words = [Coverage().described(level) for level in (0.1, 0.5)]
    assert words[0].endswith("(level 0.1, or a point estimate): 0.9 is ideal.")
    assert words[1].endswith("(the median): 0.5 is ideal.")


@pytest.mark.parametrize("follow_ups", [4, 8])
@pytest.mark.parametrize("questions", [12, 30])
def test_intervals_of_few_questions_allow_for_the_bias(questions: int, follow_ups: int) -> None:
    true = np.mean([weighted_share(rows, p >= rows.reward) for rows, p in [draw(quantile(0.1), 4000)]])
    inside = []
    for seed in range(60):
        found = estimate(statistic("coverage", draw(quantile(0.1), questions, seed, follow_ups)[0]), Bootstrap(50))
        inside.append(found.low <= true <= found.high)
    assert np.mean(inside) > 0.93
