"""Averages over settings, rankings over settings, and the samples that the best rule saves."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from prmcal.arrays import Floats
from prmcal.db.metrics import OTHER_METRICS, SETTING
from prmcal.db.overview.types import Entry, Rank, Saving
from prmcal.db.statistics.bootstrap import Bootstrap
from prmcal.db.statistics.intervals import (
    UNKNOWN,
    Estimate,
    IntervalRule,
    percentile_interval,
    skewed_interval,
    tail_of_resamples,
)
from prmcal.resamples import weighted_totals

RESAMPLES = Bootstrap(replicates=1000, seed=0)
"""The resamples of the questions of a data set."""
_TAIL = 0.025
_DEPENDENT = 2**0.5


def mean_over_settings(values: pd.DataFrame, rule: IntervalRule) -> Estimate:
    """Return the mean over settings of the mean over questions.

    `values` has the columns dataset, llm, prm, question_id and value, and at least one row. A setting without
    some of the questions counts as much as the others. `rule` gives the interval of a mean over the questions of one
    data set.
    """
    return means_over_settings(values.assign(all=""), "all", rule)[""]


def means_over_settings(values: pd.DataFrame, key: str, rule: IntervalRule) -> dict[Any, Estimate]:
    """Return :func:`mean_over_settings` of the rows with each value of the column `key`, at once.

    The rule must also work for several means at once.
    """
    sizes = values.groupby([key, *SETTING], sort=False)["value"].transform("size")
    weighted = values.assign(value=values["value"] / sizes)
    sums = weighted.groupby(["dataset", key, "question_id"], sort=False)["value"].sum()
    setting_counts = values.drop_duplicates([key, *SETTING]).groupby([key, "dataset"], sort=False).size()
    dataset_means: dict[Any, list[tuple[int, float, float, float]]] = {}
    for dataset, dataset_sums in sums.groupby(level="dataset", sort=False):
        table = dataset_sums.droplevel("dataset").unstack(key)
        for columns in _alike(table):
            question_sums = table[columns].dropna().to_numpy(np.float64)
            counts = np.array([setting_counts[name, dataset] for name in columns])
            # The mean of the questions is the mean over the settings of their means.
            means = question_sums * (len(question_sums) / counts)
            lows, highs = rule(means)
            for name, count, mean, low, high in zip(columns, counts, means.mean(axis=0), lows, highs, strict=True):
                dataset_means.setdefault(name, []).append((int(count), float(mean), float(low), float(high)))
    return {name: _combined(of_datasets) for name, of_datasets in dataset_means.items()}


def _alike(table: pd.DataFrame) -> list[list[Any]]:
    """Group the columns that have values for the same questions."""
    groups: dict[bytes, list[Any]] = {}
    for name in table.columns:
        groups.setdefault(table[name].notna().to_numpy().tobytes(), []).append(name)
    return list(groups.values())


def relative_reduction(values: pd.DataFrame, baseline: pd.DataFrame) -> Estimate:
    """Return 1 - (mean of `values`) / (mean of `baseline`). Both have the same settings and questions.

    Both are as for :func:`mean_over_settings`. The interval is for the mean of the linearised ratio.
    """
    keys = [*SETTING, "question_id"]
    pairs = values.merge(baseline, on=keys, suffixes=("", "_baseline"))
    mean, base = pairs.groupby(SETTING, sort=False)[["value", "value_baseline"]].mean().mean()
    if not base > 0:
        return UNKNOWN
    ratio = mean / base
    # To first order, the ratio of resampled questions is `ratio` plus the mean of these values, which is 0.
    deviations = (pairs["value"] - ratio * pairs["value_baseline"]) / base
    spread = mean_over_settings(pairs[keys].assign(value=deviations), skewed_interval)
    return Estimate(1 - ratio, 1 - ratio - spread.high, 1 - ratio - spread.low)


def reduction_of_chosen(values: pd.DataFrame, baseline: str | None) -> Estimate | None:
    """Return :func:`relative_reduction` of the calibrators with the lowest means on the other half of the questions.

    So no question chooses the calibrator that it is measured with. The interval is as wide as in :func:`saving`, for
    the same reason. `values` is as for :func:`rank_by_means`. None without a baseline and a calibrator that were
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
    chosen_names = rows["half"].map({number: others[1 - number].idxmin() for number in (0, 1)})
    names = rows["calibrator"].astype(str)
    reduction = relative_reduction(rows[names == chosen_names], rows[names == baseline])
    low, high = (reduction.value + _DEPENDENT * (end - reduction.value) for end in (reduction.low, reduction.high))
    return Estimate(reduction.value, low, min(high, 1.0))


class FixedRivals(NamedTuple):
    """The best fixed n of a setting. Each half of the questions chooses the n for the other half."""

    names: tuple[Any, ...]
    values: pd.DataFrame
    """The accuracy on each question (rows) of each entry at each budget (two levels of columns)."""
    half: NDArray[Any]
    """0 or 1 for each question."""
    rivals: Mapping[int, Floats]
    """The accuracy on each question of the best fixed n of at most a mean number of samples."""


def fixed_rivals(accuracies: pd.DataFrame, fixed: Collection[int], single: pd.DataFrame) -> Iterator[FixedRivals]:
    """Choose the best fixed n for each mean number of samples, at each setting that has one.

    It is the most accurate n of at most this cost on the other half of the questions: one sample, or an entry in
    `fixed` with its number of samples. So no question chooses the rival that it is compared with.

    `accuracies` has the columns of a setting, question_id, entry, budget and value. `single` is entry -1, one sample:
    the columns of a setting, question_id and accuracy. Settings may be missing.
    """
    one_sample = single.assign(entry=-1, budget=1).rename(columns={"accuracy": "value"})
    columns = [*SETTING, "question_id", "entry", "budget", "value"]
    for setting, entries_here in accuracies.groupby(SETTING, sort=False):
        one_sample_here = one_sample.merge(entries_here[SETTING].drop_duplicates(), on=SETTING)
        accuracies_here = pd.concat([one_sample_here[columns], entries_here[columns]], ignore_index=True)
        table = accuracies_here.pivot(index="question_id", columns=["entry", "budget"], values="value").dropna()
        entry, budget = (table.columns.get_level_values(name).to_numpy() for name in ("entry", "budget"))
        values, rivals = table.to_numpy(np.float64), {}
        half = np.random.default_rng(0).permutation(len(values)) % 2
        for limit in np.unique(budget[entry >= 0]):
            allowed = np.flatnonzero(np.isin(entry, [-1, *fixed]) & (budget <= limit))
            if len(allowed) and len(values) > 1:
                means = np.stack([values[half != number][:, allowed].mean(axis=0) for number in (0, 1)])
                rivals[int(limit)] = values[np.arange(len(values)), allowed[means.argmax(axis=1)][half]]
        if rivals:
            yield FixedRivals(setting, table, half, rivals)


def over_best_fixed(rivals: Iterable[FixedRivals]) -> pd.DataFrame:
    """Return how much more accurate entries are than the best fixed n of equal cost, for each question.

    The result has the columns of a setting, question_id and entry, a row for each entry and question, and `value`, the
    mean over budgets.
    """
    rows = [pd.DataFrame(columns=[*SETTING, "question_id", "entry", "value"])]
    for setting in rivals:
        entry, budget = (setting.values.columns.get_level_values(name).to_numpy() for name in ("entry", "budget"))
        for name in np.unique(entry[entry >= 0]):
            gains = [setting.values[name, limit].to_numpy() - setting.rivals[limit] for limit in budget[entry == name]]
            columns = {"question_id": setting.values.index, "entry": name, "value": np.mean(gains, axis=0)}
            rows.append(pd.DataFrame(dict(zip(SETTING, setting.names, strict=True)) | columns))
    return pd.concat(rows[1:] or rows, ignore_index=True)


def mean_of_ends(cells: pd.DataFrame) -> Estimate:
    """Return the mean over cells of a value and of both ends of its interval: the columns value, low and high.

    The interval contains the mean of the true values in at least 95% of cases: the spread of a mean is at most the mean
    of the spreads, however the cells depend on each other.
    """
    return Estimate(*(float(cells[name].astype(float).mean()) for name in ("value", "low", "high")))


def main_errors(results: pd.DataFrame) -> dict[str, Estimate]:
    """Average the other main metrics of a calibrator over settings."""
    by_metric = {metric: results[results["metric"] == metric] for metric in OTHER_METRICS}
    return {metric: mean_of_ends(rows) for metric, rows in by_metric.items() if len(rows)}


def _combined(dataset_means: Sequence[tuple[int, float, float, float]]) -> Estimate:
    """Combine the means of data sets: for each its number of settings, its mean and the ends of its interval."""
    setting_count = sum(count for count, *_ in dataset_means)
    value, below, above = 0.0, 0.0, 0.0
    for count, mean, low, high in dataset_means:
        weight = count / setting_count
        value += weight * mean
        below += (weight * (mean - low)) ** 2
        above += (weight * (high - mean)) ** 2
    return Estimate(value, value - below**0.5, value + above**0.5)


def rank_by_means(values: pd.DataFrame, competitor: str) -> dict[Any, Rank]:
    """Rank competitors by the mean of their ranks at single settings.

    All settings of a data set are resampled with the same questions. In a setting, the competitor with the lowest mean
    has rank 1, and equal ones share the mean of their ranks. The ranks are in the order of the mean ranks, the lowest
    first; equal ones have the same rank, and are ordered by the mean value, and then by name.

    A competitor is clearly ahead of another if it is ahead in nearly all resamples. With 95% confidence, all that are
    clearly ahead of a competitor or behind it are truly so. The range of its ranks leaves them out. The interval of its
    mean rank is the mean of these ranges over settings (after Klein, Wright and Wieczorek, 2020, "A joint confidence
    region for an overall ranking of populations"). Ranks in the resamples themselves would suggest too much: they
    contain the noise of the questions twice, and so separate equal competitors.

    `values` has the columns dataset, llm, prm, question_id, value (lower is better), and the column `competitor`, such
    as "calibrator", whose values can be sorted. Settings with a single competitor are left out.
    """
    ranks: dict[Any, list[Floats]] = {}
    ends: dict[Any, list[Floats]] = {}
    smallest = values.groupby("dataset")["question_id"].nunique().min() if len(values) else 0
    for _, of_dataset in values.groupby("dataset", sort=False):
        for names, means in _means_settings(of_dataset, competitor):
            ranks_here, ranges = _ranks(means, "average"), _plausible_ranks(_ahead(means[1:], int(smallest)))
            for name, column, plausible in zip(names, ranks_here.T, ranges, strict=True):
                ranks.setdefault(name, []).append(column)
                ends.setdefault(name, []).append(plausible)
    if not ranks:
        return {}
    # The first row has the ranks of the questions as they are, and the others those of the resamples.
    mean_ranks = {name: np.mean(columns, axis=0) for name, columns in ranks.items()}
    overall = values.groupby(competitor)["value"].mean()
    order = sorted(mean_ranks, key=lambda name: (mean_ranks[name][0], overall[name], name))
    resampled_ranks = np.stack([mean_ranks[name][1:] for name in order], axis=1)
    ranked = {}
    positions = _ranks(np.array([[mean_ranks[name][0] for name in order]]), "min")[0].astype(int).tolist()
    ahead = _ahead(resampled_ranks, int(smallest))
    ranges, brackets = _plausible_ranks(ahead), _brackets(ahead)
    for position, name, plausible, bracket in zip(positions, order, ranges, brackets, strict=True):
        value = float(mean_ranks[name][0])
        low, high = np.mean(ends[name], axis=0).tolist() if len(resampled_ranks) else (math.nan, math.nan)
        ranked[name] = Rank(
            settings=len(ranks[name]),
            lowest=sum(int(column[0] < 2) for column in ranks[name]),
            mean_rank=Estimate(value, min(low, value), max(high, value)),
            rank=position,
            rank_low=min(int(plausible[0]), position),
            rank_high=max(int(plausible[1]), position),
            bracket=bracket,
        )
    return ranked


def _ahead(resampled: Floats, questions: int) -> NDArray[np.bool_]:
    """Return True where a competitor (row) is clearly ahead of another (column).

    `drawn` has their values in the resamples, lower is better: (resamples, competitors). There are at least so many
    questions.
    """
    count = resampled.shape[1]
    if not len(resampled):
        return np.zeros((count, count), dtype=np.bool_)
    tail = tail_of_resamples(questions, _TAIL / (count - 1))
    return np.asarray((resampled[:, :, None] < resampled[:, None, :]).mean(axis=0) >= 1 - tail)


def _plausible_ranks(ahead: NDArray[np.bool_]) -> Floats:
    """Return the lowest and the highest rank of each competitor that is plausible, of shape (competitors, 2)."""
    return np.stack([1.0 + ahead.sum(axis=0), len(ahead) - ahead.sum(axis=1)], axis=1)


def _brackets(ahead: NDArray[np.bool_]) -> list[int]:
    """Number the brackets of a ranking: within a bracket, no competitor is clearly ahead of another."""
    numbers: list[int] = []
    start = 0
    for row in range(len(ahead)):
        if ahead[start:row, row].any() or ahead[row, start:row].any():
            start = row
        numbers.append(numbers[-1] if row > start else len(set(numbers)) + 1)
    return numbers


def _means_settings(of_dataset: pd.DataFrame, competitor: str) -> list[tuple[list[Any], Floats]]:
    """Return the competitors of each setting of a data set, and their means: (1 + replicates, competitors)."""
    totals = of_dataset.pivot_table(
        index="question_id", columns=[*SETTING, competitor], values="value", sort=False, observed=True
    )
    present = totals.notna().to_numpy(np.float64)
    sums = np.nan_to_num(totals.to_numpy(np.float64))
    questions = len(sums)
    resampled = RESAMPLES.weights(questions) if questions > 1 else np.empty((0, questions))
    weights = np.concatenate([np.ones((1, questions)), resampled])
    # A resample without any question of a setting has no mean there. It is given the mean of all its questions.
    sizes = weighted_totals(weights, present)
    means = np.where(sizes > 0, weighted_totals(weights, sums) / np.maximum(sizes, 1), np.nan)
    means = np.where(np.isnan(means), means[:1], means)
    settings = totals.columns.to_frame(index=False).groupby(SETTING, sort=False)
    return [(list(names[competitor]), means[:, names.index]) for _, names in settings if len(names) > 1]


def _ranks(values: Floats, method: Literal["average", "min"]) -> Floats:
    return np.asarray(pd.DataFrame(values).rank(axis=1, method=method), dtype=np.float64)


def saving(rivals: Sequence[FixedRivals], rules: Sequence[int], entries: Sequence[Entry]) -> Saving | None:
    """Return the share of samples that the best rule saves for the accuracy of the best fixed n.

    The rule is the entry among `rules`, numbers of `entries`, with the highest mean accuracy over settings and budgets
    on the other half of the questions. So no question is measured with a rule or an n that it chose. The accuracies are
    of the fixed n with 2, 4, ... samples, up to N / 2. The samples for each accuracy come from both curves; between
    points, their logarithm is interpolated. If the rule does not reach an accuracy, twice N samples count. The share is
    1 - the geometric mean of the ratios of samples over accuracies and settings.

    The questions of one half choose the rule of the other, so the halves are not independent. The interval holds for
    any dependence: the spread of a mean of two is at most the mean of their spreads, and not 1 / sqrt(2) of it.

    None if no rule was measured at all settings, or without settings.
    """
    scores = {}
    for rule in rules if rivals else ():
        if all(rule in setting.values.columns.get_level_values("entry") for setting in rivals):
            accuracies = [setting.values[rule].to_numpy(np.float64).mean(axis=1) for setting in rivals]
            # Without the first half, without the second one, and with all questions.
            pairs = list(zip(accuracies, rivals, strict=True))
            halves = ([accuracy[setting.half != half] for accuracy, setting in pairs] for half in (0, 1, 2))
            scores[rule] = [float(np.mean([accuracy.mean() for accuracy in half])) for half in halves]
    if not scores:
        return None
    first, second, best = (max(scores, key=lambda rule: (scores[rule][half], -rule)) for half in (0, 1, 2))
    logarithms, questions = [], []
    for setting in rivals:
        budgets = sorted(setting.rivals)
        in_first = setting.half[:, None] == 0
        rule_accuracies = np.where(in_first, setting.values[first][budgets], setting.values[second][budgets])
        curves = [rule_accuracies, np.stack([setting.rivals[budget] for budget in budgets], axis=1)]
        if (-1, 1) in setting.values:  # Both begin with one sample.
            start = setting.values[[(-1, 1)]].to_numpy(np.float64)
            curves, budgets = [np.hstack([start, curve]) for curve in curves], [1, *budgets]
        logarithms.append(_ratios(curves[0], curves[1], np.log2(budgets)))
        questions.append(len(rule_accuracies))
    shares = 1 - 2 ** np.mean(logarithms, axis=0)
    value = float(shares[0])
    ends = percentile_interval(shares[1:], min(questions))
    low, high = (value + _DEPENDENT * (end - value) for end in ends)
    return Saving(entries[best], Estimate(value, low, min(high, 1.0)))


def _ratios(rule: Floats, fixed: Floats, budgets: Floats) -> Floats:
    """Return the mean logarithm of the ratios of samples at a setting, and then in each resample of its questions.

    Both have a row for each question and a column for each budget. `budgets` has the logarithms of the budgets.
    """
    count = len(rule)
    weights = np.concatenate([np.ones((1, count)), RESAMPLES.weights(count)])
    curves = [weighted_totals(weights, accuracies) / weights.sum(axis=1, keepdims=True) for accuracies in (rule, fixed)]
    # More samples are never worth less. The smallest budget counts where several have the same accuracy.
    rising = 1e-9 * np.arange(len(budgets))
    rule_curves, fixed_curves = (np.maximum.accumulate(accuracies, axis=1) + rising for accuracies in curves)
    # One sample is as good as one sample. With all N, noise alone decides whether a rule is as accurate.
    targets = np.maximum.accumulate(curves[1], axis=1)[:, budgets > 0] - 2 * rising[-1]
    targets = targets[:, :-1] if targets.shape[1] > 1 else targets
    ratios = [
        np.interp(levels, of_rule, budgets, right=budgets[-1] + 1).mean() - np.interp(levels, of_fixed, budgets).mean()
        for levels, of_rule, of_fixed in zip(targets, rule_curves, fixed_curves, strict=True)
    ]
    return np.array(ratios)
