"""The checks for metrics, on small synthetic prefixes with known success probabilities."""

from dataclasses import replace
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from prmcal.registry.conformance.plugin import expect, expect_array, further_checks
from prmcal.registry.contracts import metric

_QUESTIONS, _FOLLOW_UPS = 20, 8
_ROUNDING = 1e-9


def _rows(seed: int = 0, levels: bool = True) -> metric.PrefixRows:
    """Prefixes of some questions, a few of them terminal, with rewards at three levels or at the median only.

    All metrics read these rows, so a metric that writes to them raises an error.
    """
    random = np.random.default_rng(seed)
    question = np.repeat(np.arange(_QUESTIONS), random.integers(2, 9, _QUESTIONS))
    p = np.clip(random.beta(1.5, 1.5, _QUESTIONS)[question] + random.normal(0, 0.15, len(question)), 0, 1)
    terminal = random.random(len(p)) < 0.15
    p = np.where(terminal, np.round(p), p)
    median = np.round(np.clip(p + random.normal(0.05, 0.1, len(p)), 0, 1), 2).astype(np.float64)
    quantiles = np.clip(median[:, None] + np.array([-0.15, 0, 0.15]), 0, 1)
    follow_ups = np.full(len(p), _FOLLOW_UPS)
    successes = random.binomial(_FOLLOW_UPS, p)
    for values in (median, successes, follow_ups, question, terminal, quantiles):
        values.flags.writeable = False
    if not levels:
        return metric.PrefixRows(median, successes, follow_ups, question, terminal)
    return metric.PrefixRows(median, successes, follow_ups, question, terminal, (0.1, 0.5, 0.9), quantiles)


def _value(plugin: metric.Metric, rows: metric.PrefixRows) -> float | None:
    """The value, after a check of the result of the metric."""
    measurement: Any = plugin.measure(rows)
    if measurement is None:
        return None
    value = float(_value_of(measurement, rows))
    expect(np.isfinite(value), "The metric must be finite. Return None where it is not defined.")
    return value


def _value_of(measurement: Any, rows: metric.PrefixRows) -> Any:
    questions = len(rows.question_ids)
    if isinstance(measurement, metric.QuestionRatio):
        for name, values in (("sums", measurement.sums), ("counts", measurement.counts)):
            expect(
                values.shape == (questions,),
                f"'{name}' of the QuestionRatio must have shape (questions,). Got {values.shape}. Write "
                "rows.totals(...), which sums over the rows of each question.",
            )
        return measurement.sums.sum() / measurement.counts.sum()
    if isinstance(measurement, metric.AbsoluteSum):
        weights = np.ones((1, questions))
        errors = measurement.errors(weights)
        expect(
            errors.ndim == 2 and len(errors) == 1,
            "errors() must return an array of shape (resamples, errors), for weights of shape (resamples, "
            f"questions) = {weights.shape}. Got {errors.shape}. Compute all resamples at once, or stack them.",
        )
        return np.abs(errors[0]).sum()
    expect(
        isinstance(measurement, np.ndarray),
        "measure() must return an array with one value per prefix, a QuestionRatio, an AbsoluteSum or None. Got "
        f"{type(measurement).__name__}.",
    )
    expect_array("The result of measure()", measurement, np.floating)
    expect(
        measurement.shape == rows.reward.shape,
        f"measure() must return one value per prefix, of shape {rows.reward.shape}. Got {measurement.shape}. Return "
        "the values before their mean, or a QuestionRatio or AbsoluteSum.",
    )
    return measurement.mean()


def check_words(plugin: metric.Metric) -> None:
    """The metric has a description, and `better` is known."""
    expect(plugin.described().strip(), "A metric needs a 'description' or a docstring. Write one sentence.")
    words = (*get_args(metric.Better), None)
    expect(plugin.better in words, f"'better' must be one of {', '.join(map(repr, words))}. Got {plugin.better!r}.")


def check_it_measures_prefixes(plugin: metric.Metric) -> None:
    """The metric works with rewards at three levels, and with a point estimate."""
    all_rows = [_rows(seed, levels) for seed in range(3) for levels in (True, False)]
    values = [
        _value(plugin, rows if level is None else rows.at(level))
        for rows in all_rows
        for level in plugin.columns("name", rows.levels).values()
    ]
    expect(any(value is not None for value in values), "measure() returns None for ordinary prefixes. Return a number.")


def check_the_order_of_the_prefixes_does_not_matter(plugin: metric.Metric) -> None:
    """The value does not depend on the order of the prefixes, also where rewards are equal."""
    rows = _rows()
    rows = replace(rows, reward=np.round(rows.reward, 1), level_rewards=np.round(rows.quantiles, 1))
    order = np.random.default_rng(1).permutation(len(rows.reward))
    first, second = (_value(plugin, some_rows) for some_rows in (rows, _selected(rows, order)))
    near = first == second
    if first is not None and second is not None:
        near = bool(np.isclose(first, second, rtol=_ROUNDING, atol=_ROUNDING))
    expect(
        near,
        f"The value must not depend on the order of the prefixes. A shuffle changed it from {first} to {second}. "
        "Treat equal rewards alike, sum over the rows of each question, and draw no random numbers.",
    )


def check_extreme_prefixes(plugin: metric.Metric) -> None:
    """Rewards of 0 and 1, single prefixes, equal rewards, and all-0 and all-1 counts give a finite value or None."""
    rows = _rows()
    zeros = np.zeros(len(rows.reward))
    extremes = [
        replace(rows, successes=np.zeros_like(rows.successes)),
        replace(rows, successes=rows.follow_ups),
        *(replace(rows, reward=zeros + end, level_rewards=(zeros + end)[:, None].repeat(3, 1)) for end in (0, 0.5, 1)),
        _selected(rows, np.array([0])),
        replace(rows, successes=np.minimum(rows.successes, 1), follow_ups=np.ones_like(rows.follow_ups)),
    ]
    for extreme in extremes:
        _value(plugin, extreme)


def _selected(rows: metric.PrefixRows, places: NDArray[np.integer[Any]]) -> metric.PrefixRows:
    columns = ("reward", "successes", "follow_ups", "question", "terminal")
    selected_columns = {name: getattr(rows, name)[places] for name in columns}
    return replace(rows, **selected_columns, level_rewards=rows.quantiles[places])


DECLARATIONS = (check_words,)
CHECKS = further_checks(globals(), DECLARATIONS)
