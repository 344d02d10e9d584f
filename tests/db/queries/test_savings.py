"""The samples that the best rule saves for equal accuracy, on curves whose saving is known."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
import pytest

from prmcal.arrays import Floats
from prmcal.db.overview.ranking import FixedRivals, fixed_rivals, saving
from prmcal.db.overview.types import Entry, Saving
from prmcal.db.text.overview import _share

BUDGETS = (2, 4, 8, 16, 32)
FIXED, *RULES = [Entry("best-of-n"), Entry("a"), Entry("b")]


def rivals(
    *curves: Callable[[Floats, int], Floats], questions: int = 100, settings: int = 2, seed: int = 3
) -> list[FixedRivals]:
    """Return settings whose entries have the accuracy ``curve(chances, budget)``; the first one has a fixed n."""
    random = np.random.default_rng(seed)
    rows, one = [], []
    for setting in range(settings):
        chances = random.beta(1, 3, questions)
        own = {"dataset": "d", "llm": str(setting), "prm": "p", "question_id": np.arange(questions)}
        one.append(pd.DataFrame({**own, "accuracy": chances}))
        rows += [
            pd.DataFrame({**own, "entry": number, "budget": budget, "value": curve(chances, budget)})
            for number, curve in enumerate(curves)
            for budget in BUDGETS
        ]
    return list(fixed_rivals(pd.concat(rows), [0], pd.concat(one)))


def fixed(chances: Floats, samples: float) -> Floats:
    return 1 - (1 - chances) ** samples


def found(*curves: Callable[[Floats, int], Floats], **how: int) -> Saving:
    own = saving(rivals(fixed, *curves, **how), range(1, 1 + len(curves)), [FIXED, *RULES])
    assert own is not None
    return own


def test_a_rule_that_needs_half_of_the_samples_saves_half() -> None:
    own = found(lambda chances, samples: fixed(chances, 2 * samples))
    # Two samples of the setting are one and a bit of the rule, whose curve begins with one sample.
    assert own.share.value == pytest.approx(0.5, abs=0.05)
    assert own.share.low <= own.share.value <= own.share.high
    assert own.entry == RULES[0]


def test_the_setting_itself_saves_nothing_and_a_worse_rule_loses() -> None:
    same = found(fixed)
    assert (same.share.value, same.share.low, same.share.high) == pytest.approx((0, 0, 0), abs=1e-6)
    worse = found(lambda chances, samples: fixed(chances, samples / 2))
    assert worse.share.high < 0
    assert _share("", worse.share, "").figure == "none"


def test_the_best_rule_is_chosen_and_an_accuracy_out_of_reach_counts() -> None:
    own = found(lambda chances, _: chances, lambda chances, samples: fixed(chances, 1.5 * samples))
    assert own.entry == RULES[1] and own.share.low > 0
    # A rule that never improves counts 64 samples for the accuracies of 2, 4, 8 and 16: 1 - 64 / 2**2.5.
    assert found(lambda chances, _: chances).share.value == pytest.approx(1 - 2**3.5)


def test_equal_rules_that_only_noise_separates_save_nothing_on_other_questions() -> None:
    """The best of many would seem to save if it was measured on the questions that choose it."""
    shares = []
    for seed in range(8):
        random = np.random.default_rng(seed)

        def noisy(chances: Floats, samples: int, random: np.random.Generator = random) -> Floats:
            return np.clip(fixed(chances, samples) + random.normal(0, 0.3, len(chances)), 0, 1)

        noisy_rivals = rivals(noisy, *[noisy] * 20, questions=60, settings=1)
        own = saving(noisy_rivals, range(1, 21), [FIXED, *[Entry(f"{number}") for number in range(20)]])
        assert own is not None
        shares.append(own.share.value)
    assert np.mean(shares) < 0.1


def test_the_interval_contains_the_saving_of_the_best_of_equal_rules() -> None:
    """Each needs two thirds of the samples of the setting, on average, and chance alone says which one is best."""

    def equal(chances: Floats, samples: int) -> Floats:
        return fixed(chances, 1 + (samples - 1) * 1.5)

    questions, truth = 40, found(equal, questions=5_000, settings=1).share.value
    entries, contained = [FIXED, *[Entry(f"{number}") for number in range(8)]], 0
    for seed in range(20):
        random = np.random.default_rng(seed)
        own = [random.normal(0, 0.2, questions) for _ in range(8)]

        def noisy(chances: Floats, samples: int, noise: Floats) -> Floats:
            return equal(chances, samples) + noise * (1 - 1 / samples)

        rules = [partial(noisy, noise=noise) for noise in own]
        share = saving(rivals(fixed, *rules, questions=questions, settings=1, seed=seed), range(1, 9), entries)
        assert share is not None
        contained += share.share.low <= truth <= share.share.high
    assert contained >= 18


def test_without_a_rule_there_is_no_saving() -> None:
    assert saving(rivals(fixed), [], [FIXED]) is None
    assert saving([], [1], [FIXED, RULES[0]]) is None
