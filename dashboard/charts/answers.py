"""The answers to the questions of the pages: Markdown of a sentence or two, with intervals and numbers of questions."""

import math
from typing import Any

import pandas as pd

from prmcal.dashboard.charts.trajectory import percent, points
from prmcal.dashboard.formats import escaped, estimate, integer, number
from prmcal.db.metrics import COORDINATES, MetricColumn
from prmcal.db.queries.two_cells import CellComparison
from prmcal.db.statistics.budgets import verdict
from prmcal.db.text.formats import counted

_EXAMPLE = 0.9  # the score of the question
_VERDICTS = {"gain": "a gain:", "no gain": "no clear gain:", "loss": "a loss:"}


def improves(metric: MetricColumn, difference: float) -> bool:
    """Return whether a difference of values of a metric is a gain; of absolute values if the best value is 0."""
    return (difference > 0) == (metric.better == "higher")


def of_comparison(pair: CellComparison, metric: MetricColumn) -> str:
    """Say whether B is better than A by a metric, with the one test of both."""
    differing = [kind for kind in COORDINATES if pair.a[kind] != pair.b[kind]]
    names = [", ".join(str(cell[kind]) for kind in differing if cell[kind] is not None) for cell in (pair.b, pair.a)]
    paired = f"B is {names[0] or 'the same'}, A is {names[1] or 'the same'}. {pair.paired_over}"
    row: Any = next((row for row in pair.table.itertuples() if row.metric == metric.name), None)
    if row is None or row.real is None:
        return f"**Not known.** {escaped(paired)}"
    better = "**Yes.**" if improves(metric, row.difference) else "**No, B is worse.**"
    sizes = "distance from 0 of " if row.from_zero else ""
    p = f"p = {row.p_value:.2g}" if row.p_value >= 0.001 else "p < 0.001"
    difference = estimate(row.difference, row.low, row.high)
    fact = f"{metric.title} ({metric.direction}): {sizes}B \N{MINUS SIGN} A = {difference}, {p}."
    return f"{better if row.real else '**Not shown.**'} {escaped(f'{fact} {paired}')}"


def of_solution(table: pd.DataFrame, verdict: str, among: int) -> str:
    """Say whether calibration brings the scores of a solution closer to its success rates.

    `table` comes from :func:`prmcal.dashboard.charts.trajectory.step_table`, and `among` is the number of solutions
    from which the page chooses its examples.
    """
    steps = table[~table["terminal"].eq(True)].dropna(subset=["reward", "calibrated", "success"])
    if steps.empty:
        return f"**Not known.** The solution is {verdict}, and its steps have no success rates."
    before, after = ((steps[name] - steps["success"]).abs().mean() for name in ("reward", "calibrated"))
    lead = "Here it helps." if after < before else "Here it does not." if after > before else "It changes nothing here."
    return (
        f"**{lead}** The score is off by {number(before, 2)} before and by {number(after, 2)} after, on average over "
        f"{counted(len(steps), 'step')}. The solution is {verdict}. One of {integer(among)}, an example and no proof."
    )


def of_calibration(rows: pd.DataFrame, bins: pd.DataFrame) -> str:
    """Say how far scores lie from the truth, before and after calibration.

    `rows` of the leaderboard are for the uncalibrated scores, if the grid has them, and for a calibrator. `bins` are
    from their reliability diagrams, with a column `calibrator`.
    """
    sentences = []
    for row in rows.to_dict("records"):
        value, low, high = (row.get(f"signed_error{end}", math.nan) for end in ("", "_low", "_high"))
        kind = "too high by" if low > 0 else "too low by" if high < 0 else "no clear error,"
        value, low, high = (-value, -high, -low) if high < 0 else (value, low, high)
        facts = [f"{kind} {estimate(value, low, high)} on average"]
        around = (bins["lower"] <= _EXAMPLE) & (bins["upper"] > _EXAMPLE) & (bins["count"] > 0)
        for example in bins[(bins["calibrator"] == row["calibrator"]) & around].itertuples():
            share, low, high = (number(100 * end, 0) for end in (example.mean_success, example.low, example.high))
            facts.insert(0, f"a score of {number(example.mean_reward, 2)} is right in {share}% [{low}, {high}]")
        sentences.append(f"**{escaped(row['calibrator'])}:** {escaped('; '.join(facts))}.")
    first_row = rows.iloc[0]
    counts = f"{counted(int(first_row['questions']), 'question')}, {counted(int(first_row['rows']), 'step')}."
    return " ".join([*sentences, counts])


def of_samples(row: Any, fixed: pd.DataFrame, among: int) -> str:
    """Say what a fixed number of samples gains, and what best-of-n + IAS gains with one calibrator at equal cost.

    `row` is one of :func:`prmcal.dashboard.charts.curves.gains_at_once`, whose interval holds for all calibrators at
    once. `fixed` are the first and the last row of :func:`prmcal.dashboard.charts.curves.fixed_points`, for one and for
    N samples. `among` is the number of calibrators from which this calibrator was chosen by its result.
    """
    single, full = (
        f"{percent(point.accuracy)} [{number(100 * point.accuracy_low, 0)}, {number(100 * point.accuracy_high, 0)}]"
        for point in fixed.itertuples()
    )
    most_samples, questions = int(fixed["cost"].iloc[-1]), counted(int(fixed["n"].iloc[0]), "question")
    chosen_among = f", the most accurate of {among}" if among > 1 else ""
    holds = f" The interval holds for all {among} at once." if among > 1 else ""
    lead = f"**{escaped(f'One sample is right in {single}, {most_samples} samples in {full}')}.** {questions}."
    return f"{lead} " + escaped(
        f"Choosing n for each question by its score ({row.series}{chosen_among}; C = {row.C:g}, β = {row.beta:g}): "
        f"{percent(row.accuracy)} with {number(row.samples, 1)} of {most_samples} samples. A fixed n of equal cost has "
        f"{percent(row.fixed)}, so this is {_VERDICTS[verdict(row.low, row.high)]} "
        f"{points(row.difference, row.low, row.high)}.{holds}"
    )
