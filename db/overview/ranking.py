"""Averages over settings, the ranking of what was measured at them, and the samples that the best rule saves."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from prmcal.arrays import Floats
from prmcal.db.metrics import OTHER_METRICS, SETTING
from prmcal.db.overview.types import UNKNOWN, Entry, Quantity, Rank, Saving
from prmcal.db.statistics.bootstrap import Bootstrap
from prmcal.db.statistics.intervals import IntervalRule, percentile_interval, skewed_interval, tail_of_resamples
from prmcal.resamples import weighted_totals


def mean_over_settings(values: pd.DataFrame, rule: IntervalRule) -> Quantity:
    """Return the mean over settings of the mean over questions.

    `values` has the columns dataset, llm, prm, question_id and value, and at least one row. A setting without
    some of the questions counts as much as the others. `rule` gives the interval of a mean over the questions of one
    data set.
    """
    return means_over_settings(values.assign(all=""), "all", rule)[""]


def means_over_settings(values: pd.DataFrame, key: str, rule: IntervalRule) -> dict[Any, Quantity]:
    """Return :func:`mean_over_settings` of the rows with each value of the column `key`, at once.

    The rule is also one for several means at once.
    """
    sizes = values.groupby([key, *SETTING], sort=False)["value"].transform("size")
    weighted = values.assign(value=values["value"] / sizes)
    sums = weighted.groupby(["dataset", key, "question_id"], sort=False)["value"].sum()
    settings = values.drop_duplicates([key, *SETTING]).groupby([key, "dataset"], sort=False).size()
    found: dict[Any, list[tuple[int, float, float, float]]] = {}
    for dataset, here in sums.groupby(level="dataset", sort=False):
        table = here.droplevel("dataset").unstack(key)
        for columns in _alike(table):
            part = table[columns].dropna().to_numpy(np.float64)
            counts = np.array([settings[name, dataset] for name in columns])
            # The mean of the questions is the mean over the settings of their means.
            means = part * (len(part) / counts)
            lows, highs = rule(means)
            for name, count, mean, low, high in zip(columns, counts, means.mean(axis=0), lows, highs, strict=True):
                found.setdefault(name, []).append((int(count), float(mean), float(low), float(high)))
    return {name: _recovered(parts) for name, parts in found.items()}


def _alike(table: pd.DataFrame) -> list[list[Any]]:
    """Group the columns that have values for the same questions."""
    groups: dict[bytes, list[Any]] = {}
    for name in table.columns:
        groups.setdefault(table[name].notna().to_numpy().tobytes(), []).append(name)
    return list(groups.values())


def relative_cut(values: pd.DataFrame, baseline: pd.DataFrame) -> Quantity:
    """Return 1 - (mean of `values`) / (mean of `baseline`), where both have the same settings and questions.

    Both are as for :func:`mean_over_settings`. The interval is that of the mean of the linearised ratio.
    """
    keys = [*SETTING, "question_id"]
    both = values.merge(baseline, on=keys, suffixes=("", "_baseline"))
    mean, base = (
        mean_over_settings(both[keys].assign(value=both[name]), skewed_interval).value
        for name in ("value", "value_baseline")
    )
    if not base > 0:
        return UNKNOWN
    ratio = mean / base
    # To first order, the ratio of resampled questions is `ratio` plus the mean of these values, which is 0.
    apart = (both["value"] - ratio * both["value_baseline"]) / base
    spread = mean_over_settings(both[keys].assign(value=apart), skewed_interval)
    return Quantity(1 - ratio, 1 - ratio - spread.high, 1 - ratio - spread.low)


def cut_of_chosen(values: pd.DataFrame, baseline: str | None) -> Quantity | None:
    """Return :func:`relative_cut` of the calibrators that the other half of the questions chooses, the lowest means.

    So no question chooses the calibrator that it is measured with. The interval is as wide as that of :func:`saving`,
    for the same reason. `values` is as for :func:`rank_by_means`. None without a baseline and a calibrator that were
    measured at all settings.
    """
    questions = values[["dataset", "question_id"]].drop_duplicates().sort_values(["dataset", "question_id"])
    half = np.random.default_rng(0).permutation(len(questions)) % 2
    rows = values.merge(questions.assign(half=half), on=["dataset", "question_id"])
    means = rows.groupby(["half", "calibrator", *SETTING], observed=True)["value"].mean().unstack(SETTING)
    means = means.dropna().mean(axis=1).unstack("half").dropna()
    if baseline not in means.index or len(means) < 2 or len(means.columns) < 2:
        return None
    others = means.drop(baseline)
    chosen = rows["half"].map({part: others[1 - part].idxmin() for part in (0, 1)})
    names = rows["calibrator"].astype(str)
    cut = relative_cut(rows[names == chosen], rows[names == baseline])
    low, high = (cut.value + _DEPENDENT * (end - cut.value) for end in (cut.low, cut.high))
    return Quantity(cut.value, low, min(high, 1.0))


class FixedRivals(NamedTuple):
    """The best fixed n of a setting, each chosen on the half of the questions that it is not compared on."""

    setting: tuple[Any, ...]
    values: pd.DataFrame
    """The accuracy on each question (rows) of each entry at each budget (two levels of columns)."""
    half: NDArray[Any]
    """0 or 1 for each question."""
    rivals: Mapping[int, Floats]
    """The accuracy on each question of the best fixed n of at most a mean number of samples."""


def fixed_rivals(accuracies: pd.DataFrame, fixed: Collection[int], one: pd.DataFrame) -> Iterator[FixedRivals]:
    """Choose the best fixed n for each mean number of samples, at each setting that has one.

    It is the most accurate one of at most this cost on the other half of the questions: one sample, or an
    entry in `fixed` with its number of samples. So no question chooses the rival that it is compared with.

    `accuracies` has the columns of a setting, question_id, entry, budget and value. `one` has those of a setting,
    question_id and accuracy, with one sample, which is entry -1; settings may be missing.
    """
    first = one.assign(entry=-1, budget=1).rename(columns={"accuracy": "value"})
    columns = [*SETTING, "question_id", "entry", "budget", "value"]
    for setting, here in accuracies.groupby(SETTING, sort=False):
        own = first.merge(here[SETTING].drop_duplicates(), on=SETTING)
        both = pd.concat([own[columns], here[columns]], ignore_index=True)
        table = both.pivot(index="question_id", columns=["entry", "budget"], values="value").dropna()
        entry, budget = (table.columns.get_level_values(name).to_numpy() for name in ("entry", "budget"))
        values, rivals = table.to_numpy(np.float64), {}
        half = np.random.default_rng(0).permutation(len(values)) % 2
        for most in np.unique(budget[entry >= 0]):
            allowed = np.flatnonzero(np.isin(entry, [-1, *fixed]) & (budget <= most))
            if len(allowed) and len(values) > 1:
                means = np.stack([values[half != each][:, allowed].mean(axis=0) for each in (0, 1)])
                rivals[int(most)] = values[np.arange(len(values)), allowed[means.argmax(axis=1)][half]]
        if rivals:
            yield FixedRivals(setting, table, half, rivals)


def over_best_fixed(found: Iterable[FixedRivals]) -> pd.DataFrame:
    """Return how much more accurate entries are than the best fixed n of equal cost, for each question.

    The result has the columns of a setting, question_id and entry, a row for each entry and question, and `value`, the
    mean over budgets.
    """
    rows = [pd.DataFrame(columns=[*SETTING, "question_id", "entry", "value"])]
    for each in found:
        entry, budget = (each.values.columns.get_level_values(name).to_numpy() for name in ("entry", "budget"))
        for name in np.unique(entry[entry >= 0]):
            more = [each.values[name, most].to_numpy() - each.rivals[most] for most in budget[entry == name]]
            own = {"question_id": each.values.index, "entry": name, "value": np.mean(more, axis=0)}
            rows.append(pd.DataFrame(dict(zip(SETTING, each.setting, strict=True)) | own))
    return pd.concat(rows[1:] or rows, ignore_index=True)


def mean_of_ends(cells: pd.DataFrame) -> Quantity:
    """Return the mean over cells of a value and of both ends of its interval: the columns value, low and high.

    The interval contains the mean of the true values in at least 95% of cases: the spread of a mean is at most the mean
    of the spreads, however the cells depend on each other.
    """
    return Quantity(*(float(cells[name].astype(float).mean()) for name in ("value", "low", "high")))


def main_errors(own: pd.DataFrame) -> dict[str, Quantity]:
    """Average the other main metrics of a calibrator over settings."""
    parts = {metric: own[own["metric"] == metric] for metric in OTHER_METRICS}
    return {metric: mean_of_ends(rows) for metric, rows in parts.items() if len(rows)}


def _recovered(parts: Sequence[tuple[int, float, float, float]]) -> Quantity:
    """Combine the means of data sets: for each its number of settings, its mean and the ends of its interval."""
    settings = sum(number for number, *_ in parts)
    value, below, above = 0.0, 0.0, 0.0
    for number, mean, low, high in parts:
        weight = number / settings
        value += weight * mean
        below += (weight * (mean - low)) ** 2
        above += (weight * (high - mean)) ** 2
    return Quantity(value, value - below**0.5, value + above**0.5)


RESAMPLES = Bootstrap(replicates=1000, seed=0)
"""The resamples of the questions of a data set."""
_TAIL = 0.025


def rank_by_means(values: pd.DataFrame, competitor: str) -> dict[Any, Rank]:
    """Rank competitors by the mean of their ranks at single settings.

    All settings of a data set are resampled with the same questions. In a setting, the competitor with the lowest mean
    has rank 1, and equal ones share the mean of their ranks. The ranks are in the order of the mean ranks, the lowest
    first; equal ones have the same rank, and are ordered by the mean value, and then by name.

    A competitor is clearly ahead of another if it is so in nearly all resamples. With 95% confidence, none that is
    clearly ahead of a competitor or behind it is so only by chance. The range of its ranks leaves out those. The
    interval of its mean rank is the mean over settings of these (after Klein, Wright and Wieczorek, 2020, "A joint
    confidence region for an overall ranking of populations"). Ranks in the resamples themselves would suggest too much:
    they have the noise of the questions twice, and it separates those that are equal.

    `values` has the columns dataset, llm, prm, question_id, value (lower is better), and the column `competitor`, such
    as "calibrator", whose values can be sorted. Settings with a single competitor are left out.
    """
    ranks: dict[Any, list[Floats]] = {}
    ends: dict[Any, list[Floats]] = {}
    smallest = values.groupby("dataset")["question_id"].nunique().min() if len(values) else 0
    for _, here in values.groupby("dataset", sort=False):
        for names, means in _means_of_settings(here, competitor):
            ranks_here, ranges = _ranks(means, "average"), _plausible_ranks(_ahead(means[1:], int(smallest)))
            for name, column, own in zip(names, ranks_here.T, ranges, strict=True):
                ranks.setdefault(name, []).append(column)
                ends.setdefault(name, []).append(own)
    if not ranks:
        return {}
    # The first row has the ranks of the questions as they are, and the others those of the resamples.
    mean_ranks = {name: np.mean(columns, axis=0) for name, columns in ranks.items()}
    overall = values.groupby(competitor)["value"].mean()
    order = sorted(mean_ranks, key=lambda name: (mean_ranks[name][0], overall[name], name))
    drawn = np.stack([mean_ranks[name][1:] for name in order], axis=1)
    found = {}
    first = _ranks(np.array([[mean_ranks[name][0] for name in order]]), "min")[0].astype(int).tolist()
    ahead = _ahead(drawn, int(smallest))
    ranges, brackets = _plausible_ranks(ahead), _brackets(ahead)
    for position, name, own, bracket in zip(first, order, ranges, brackets, strict=True):
        value = float(mean_ranks[name][0])
        low, high = np.mean(ends[name], axis=0).tolist() if len(drawn) else (math.nan, math.nan)
        found[name] = Rank(
            settings=len(ranks[name]),
            lowest=sum(int(column[0] < 2) for column in ranks[name]),
            mean_rank=Quantity(value, min(low, value), max(high, value)),
            rank=position,
            rank_low=min(int(own[0]), position),
            rank_high=max(int(own[1]), position),
            bracket=bracket,
        )
    return found


def _ahead(drawn: Floats, questions: int) -> NDArray[np.bool_]:
    """Return which competitors (rows) are clearly ahead of which others (columns).

    `drawn` has their values in the resamples of at least so many questions, where lower is better: (resamples,
    competitors).
    """
    count = drawn.shape[1]
    if not len(drawn):
        return np.zeros((count, count), dtype=np.bool_)
    tail = tail_of_resamples(questions, _TAIL / (count - 1))
    return np.asarray((drawn[:, :, None] < drawn[:, None, :]).mean(axis=0) >= 1 - tail)


def _plausible_ranks(ahead: NDArray[np.bool_]) -> Floats:
    """Return the lowest and the highest rank of each competitor that is plausible, of shape (competitors, 2)."""
    return np.stack([1.0 + ahead.sum(axis=0), len(ahead) - ahead.sum(axis=1)], axis=1)


def _brackets(ahead: NDArray[np.bool_]) -> list[int]:
    """Number the brackets of a ranking: each is as long as none in it is clearly ahead of another one."""
    numbers: list[int] = []
    first = 0
    for row in range(len(ahead)):
        if ahead[first:row, row].any() or ahead[row, first:row].any():
            first = row
        numbers.append(numbers[-1] if row > first else len(set(numbers)) + 1)
    return numbers


def _means_of_settings(here: pd.DataFrame, competitor: str) -> list[tuple[list[Any], Floats]]:
    """Return for each setting of a data set its competitors, and their means: (1 + replicates, competitors)."""
    totals = here.pivot_table(
        index="question_id", columns=[*SETTING, competitor], values="value", sort=False, observed=True
    )
    counted = totals.notna().to_numpy(np.float64)
    sums = np.nan_to_num(totals.to_numpy(np.float64))
    questions = len(sums)
    drawn = RESAMPLES.weights(questions) if questions > 1 else np.empty((0, questions))
    weights = np.concatenate([np.ones((1, questions)), drawn])
    # A resample without any question of a setting has no mean there. It is given the mean of all its questions.
    sizes = weighted_totals(weights, counted)
    means = np.where(sizes > 0, weighted_totals(weights, sums) / np.maximum(sizes, 1), np.nan)
    means = np.where(np.isnan(means), means[:1], means)
    settings = totals.columns.to_frame(index=False).groupby(SETTING, sort=False)
    return [(list(here[competitor]), means[:, here.index]) for _, here in settings if len(here) > 1]


def _ranks(values: Floats, method: Literal["average", "min"]) -> Floats:
    return np.asarray(pd.DataFrame(values).rank(axis=1, method=method), dtype=np.float64)


_DEPENDENT = 2**0.5


def saving(found: Sequence[FixedRivals], rules: Sequence[int], entries: Sequence[Entry]) -> Saving | None:
    """Return the share of samples that the best rule saves for the accuracy of the best fixed n.

    The rule is the entry among `rules`, numbers of `entries`, with the highest mean accuracy over settings and budgets
    on the other half of the questions. So no question chooses the rule or the n that it is measured with. The
    accuracies are those of the fixed n with 2, 4, ... samples, up to N / 2. Each is read off both curves, between whose
    points the logarithm of the samples is interpolated. An accuracy that the rule does not reach counts as twice N
    samples. The share is 1 - the geometric mean of the ratios of samples over accuracies and settings.

    The questions of one half choose the rule of the other, so the halves are not independent. The interval holds for
    any dependence: the spread of a mean of two is at most the mean of their spreads, and not 1 / sqrt(2) of it.

    None if no rule was measured at all settings, or if there are none.
    """
    scores = {}
    for rule in rules if found else ():
        if all(rule in each.values.columns.get_level_values("entry") for each in found):
            tables = [each.values[rule].to_numpy(np.float64).mean(axis=1) for each in found]
            # Without the first half, without the second one, and with all questions.
            both = list(zip(tables, found, strict=True))
            scores[rule] = [float(np.mean([own[each.half != left].mean() for own, each in both])) for left in (0, 1, 2)]
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
    ends = percentile_interval(shares[1:], min(questions))
    low, high = (value + _DEPENDENT * (end - value) for end in ends)
    return Saving(entries[best], Quantity(value, low, min(high, 1.0)))


def _ratios(rule: Floats, fixed: Floats, budgets: Floats) -> Floats:
    """Return the mean logarithm of the ratios of samples at a setting, and then in each resample of its questions.

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
        np.interp(levels, mine, budgets, right=budgets[-1] + 1).mean() - np.interp(levels, theirs, budgets).mean()
        for levels, mine, theirs in zip(wanted, own, other, strict=True)
    ]
    return np.array(found)
