"""The readings of a PRM: ways to make one score of a whole solution from the scores of its steps, and their worth.

A reading is never judged on questions that chose it. Zhang et al. (2025), arXiv:2501.07301, table 13, compare readings
by the accuracy of best-of-n. Here they are compared as probabilities of a right answer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from prmcal.arrays import Floats
from prmcal.db.statistics.intervals import UNKNOWN, error_interval, gain_interval, signed_interval
from prmcal.db.text.formats import number
from prmcal.db.text.overview import quantity
from prmcal.harness.audit.estimates import (
    OUTER,
    Number,
    Rows,
    area_within,
    error_in_folds,
    held_out_errors,
    held_out_folds,
    mean_of,
    over_folds,
)
from prmcal.harness.audit.scored import ScoredSolutions
from prmcal.registry.strategies.aggregation import READINGS, Reading, read_steps

_ON_TOP = "isotonic"
"""The calibrator on top of a reading. It is fixed beforehand, so no choice flatters it."""
_LAST: Reading = "last"
WORDS: Mapping[str, str] = {
    "last": "last step",
    "first": "first step",
    "min": "smallest step",
    "mean": "mean of the steps",
    "product": "product of the steps",
}
CHOSEN = "chosen in the folds"


@dataclass(frozen=True)
class MeasuredReading:
    """Whole solutions by one reading of their steps, or by the reading that the other folds choose."""

    reading: str
    error: Number
    """Mean of score - label."""
    brier: Number
    calibrated: Number
    """The Brier score on questions that isotonic regression has not seen."""
    cut: Number
    """The Brier score of the last step minus this reading's, paired by solution."""
    auc: Number | None
    """The area under the ROC curve within questions; None if no question has both kinds, or for a choice."""

    def columns(self) -> dict[str, object]:
        """Return its values and their intervals as a row of a table."""
        numbers = {name: getattr(self, name) or UNKNOWN for name in ("error", "brier", "calibrated", "cut", "auc")}
        row: dict[str, object] = {"reading": self.reading}
        for name, value in numbers.items():
            row |= value.columns(name)
        return row


def readings(scored: ScoredSolutions) -> tuple[MeasuredReading, ...]:
    """Return all readings of the steps, and last the choice in the folds.

    There are none if no solution has scores of two steps, or if labels are about steps and not about whole solutions.
    """
    table = _whole_solutions(scored)
    if table is None:
        return ()
    rows_of = {name: Rows(table.assign(reward=table[name])) for name in READINGS}
    rows = rows_of[_LAST]
    squared = {name: (rewards.reward - rewards.label) ** 2 for name, rewards in rows_of.items()}
    after = {name: np.empty(len(rows.label)) for name in READINGS}
    chosen_squares, on_top, errors = (np.empty(len(rows.label)) for _ in range(3))
    for held_out in held_out_folds(rows.question, OUTER):
        for name in READINGS:
            after[name][held_out] = held_out_errors(_ON_TOP, rows_of[name], ~held_out, held_out)
        best = min(READINGS, key=lambda name: squared[name][~held_out].mean())
        chosen_squares[held_out] = squared[best][held_out]
        errors[held_out] = (rows_of[best].reward - rows.label)[held_out]
        best = min(READINGS, key=lambda name: error_in_folds(_ON_TOP, rows_of[name], ~held_out))
        on_top[held_out] = after[best][held_out]

    def reading_of(name: str, brier: Floats, calibrated: Floats, error: Floats, auc: Number | None) -> MeasuredReading:
        return MeasuredReading(
            name,
            mean_of(error, rows, signed_interval),
            mean_of(brier, rows, error_interval),
            over_folds(calibrated, rows, error_interval),
            over_folds(squared[_LAST] - brier, rows, gain_interval),
            auc,
        )

    areas = {name: area_within(table.assign(reward=table[name])) for name in READINGS}
    single = [
        reading_of(name, squared[name], after[name], rows_of[name].reward - rows.label, areas[name])
        for name in READINGS
    ]
    return (*single, reading_of(CHOSEN, chosen_squares, on_top, errors, None))


def sentences(rows: Sequence[MeasuredReading]) -> Iterator[str]:
    """Yield sentences: how good is the last step as a chance of a right answer, and is another reading better?"""
    if not rows:
        return
    last_step, chosen_reading = rows[0], rows[-1]
    best = min(rows[:-1], key=lambda row: row.brier.value)
    auc = "" if last_step.auc is None else f", AUC within questions {quantity(last_step.auc)}"
    yield (
        f"Whole solutions, read by the last step: score - label {quantity(last_step.error, signed=True)}, Brier score "
        f"{quantity(last_step.brier)}{auc}."
    )
    if chosen_reading.cut.low <= 0 or best is last_step:
        yield f"No other reading of the steps clearly beats the last: {quantity(chosen_reading.cut)}."
        return
    auc = "" if best.auc is None else f", AUC within questions {quantity(best.auc)}"
    yield (
        f"Read the {WORDS[best.reading]}: Brier score {number(last_step.brier.value)} to {quantity(best.brier)}{auc}. "
        f"Chosen in folds, the reading cuts {quantity(chosen_reading.cut)}. With '{_ON_TOP}' on top "
        f"{number(best.calibrated.value)}; '{_ON_TOP}' on the last step alone {number(last_step.calibrated.value)}."
    )


def _whole_solutions(scored: ScoredSolutions) -> pd.DataFrame | None:
    """Return each solution with a label and its scores by all readings; None if readings cannot be compared."""
    steps = scored.prefixes[scored.prefixes["step"] > 0].sort_values(["question", "solution", "step"])
    if scored.target in ("first error", "step") or steps.empty:
        return None
    keys = ["question", "solution"]
    ends = steps.groupby(keys, sort=False).size().cumsum().to_numpy()
    if len(ends) == len(steps):
        return None
    scores = np.split(steps["reward"].to_numpy(), ends[:-1])
    values = {name: read_steps(scores, name) for name in READINGS}
    table = steps[keys].drop_duplicates().assign(**values)
    table = table.merge(scored.solutions[[*keys, "label"]], on=keys).dropna(subset="label")
    return table.astype({"label": np.float64}) if len(table) else None
