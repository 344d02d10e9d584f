"""The samples that the best rule of the league saves for equal accuracy, against the best fixed setting."""

from collections.abc import Sequence

import numpy as np

from prmcal.arrays import Floats
from prmcal.db.overview.ranking import RESAMPLES, FixedRivals
from prmcal.db.overview.types import Entry, Quantity, Saving
from prmcal.db.statistics.intervals import percentile_interval
from prmcal.resamples import weighted_totals

_DEPENDENT = 2**0.5


def saving(found: Sequence[FixedRivals], rules: Sequence[int], entries: Sequence[Entry]) -> Saving | None:
    """Return the share of samples that the best rule saves for the accuracy of the best fixed setting.

    The rule is the entry among `rules`, numbers of `entries`, with the highest mean accuracy over places and budgets on
    the other half of the questions. So no question chooses the rule or the setting that it is measured with. The
    accuracies are those of the setting with 2, 4, ... samples, up to N / 2. Each is read off both curves, between whose
    points the logarithm of the samples is interpolated. An accuracy that the rule does not reach counts as twice N
    samples. The share is 1 - the geometric mean of the ratios of samples over accuracies and places.

    The questions of one half choose the rule of the other, so the halves are not independent. The interval holds for
    any dependence: the spread of a mean of two is at most the mean of their spreads, and not 1 / sqrt(2) of it.

    None if no rule was measured at all places, or if there are none.
    """
    scores = {}
    for rule in rules if found else ():
        if all(rule in each.values.columns.get_level_values("entry") for each in found):
            tables = [each.values[rule].to_numpy(np.float64).mean(axis=1) for each in found]
            # Without the first half, without the second one, and with all questions.
            scores[rule] = [
                float(
                    np.mean([own[each.half != left].mean() for own, each in zip(tables, found, strict=True)])
                )
                for left in (0, 1, 2)
            ]
    if not scores:
        return None
    first, second, best = (max(scores, key=lambda rule: (scores[rule][part], -rule)) for part in (0, 1, 2))
    logarithms, questions = [], []
    for each in found:
        budgets = sorted(each.rivals)
        chosen = np.where(each.half[:, None] == 0, each.values[first][budgets], each.values[second][budgets])
        curves = [chosen, np.stack([each.rivals[budget] for budget in budgets], axis=1)]
        if (-1, 1) in each.values:  # Both begin with one sample.
            start = each.values[[(-1, 1)]].to_numpy(np.float64)
            curves, budgets = [np.hstack([start, curve]) for curve in curves], [1, *budgets]
        logarithms.append(_ratios(curves[0], curves[1], np.log2(budgets)))
        questions.append(len(chosen))
    shares = 1 - 2 ** np.mean(logarithms, axis=0)
    value = float(shares[0])
    low, high = (
        value + _DEPENDENT * (end - value) for end in percentile_interval(shares[1:], min(questions))
    )
    return Saving(entries[best], Quantity(value, low, min(high, 1.0)))


def _ratios(rule: Floats, fixed: Floats, budgets: Floats) -> Floats:
    """Return the mean logarithm of the ratios of samples at a place, and then in each resample of its questions.

    Both have a row for each question, and a column for each budget, whose logarithms `budgets` has.
    """
    count = len(rule)
    weights = np.concatenate([np.ones((1, count)), RESAMPLES.weights(count)])
    curves = [weighted_totals(weights, each) / weights.sum(axis=1, keepdims=True) for each in (rule, fixed)]
    # More samples are never worth less. The smallest budget counts where several have the same accuracy.
    rising = 1e-9 * np.arange(len(budgets))
    own, other = (np.maximum.accumulate(each, axis=1) + rising for each in curves)
    # One sample is as good as one sample. With all N, noise alone decides whether a rule is as accurate.
    wanted = np.maximum.accumulate(curves[1], axis=1)[:, budgets > 0] - 2 * rising[-1]
    wanted = wanted[:, :-1] if wanted.shape[1] > 1 else wanted
    found = [
        np.interp(levels, mine, budgets, right=budgets[-1] + 1).mean()
        - np.interp(levels, theirs, budgets).mean()
        for levels, mine, theirs in zip(wanted, own, other, strict=True)
    ]
    return np.array(found)
