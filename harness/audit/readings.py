"""The readings of a PRM: what one score of a whole solution is worth, by how it is made of the scores of its steps.

No reading is judged on questions that chose it. Zhang et al. (2025), arXiv:2501.07301, table 13, compare readings by
the accuracy of best-of-n. Here they are compared as probabilities of a right answer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from prmcal.arrays import Bools, Floats
from prmcal.db.statistics.intervals import UNKNOWN, error_interval, gain_interval, signed_interval
from prmcal.db.text.formats import number
from prmcal.db.text.overview import quantity
from prmcal.harness.audit.estimates import (
    INNER,
    OUTER,
    Number,
    Rows,
    area_within,
    fitted,
    folds_of,
    mean_of,
    over_folds,
    predicted,
)
from prmcal.harness.audit.scored import Scored
from prmcal.registry.strategies.aggregation import READINGS, Reading, read_steps

_ON_TOP = "isotonic"
"""The calibrator on top of a reading. It is named beforehand, so no choice flatters it."""
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
class Read:
    """Whole solutions by one reading of their steps, or by the one that the other folds choose."""

    reading: str
    error: Number
    """Mean of score - label."""
    brier: Number
    calibrated: Number
    """The Brier score on questions that isotonic regression has not seen."""
    cut: Number
    """The Brier score of the last step minus that of this reading, paired by solution."""
    auc: Number | None
    """The area under the ROC curve within questions; None if no question has both kinds, or for a choice."""

    def columns(self) -> dict[str, object]:
        """Return its values and their intervals as a row of a table."""
        numbers = {name: getattr(self, name) or UNKNOWN for name in ("error", "brier", "calibrated", "cut", "auc")}
        parts = [value.columns(name) for name, value in numbers.items()]
        return {"reading": self.reading, **{name: each for part in parts for name, each in part.items()}}


def readings(found: Scored) -> tuple[Read, ...]:
    """Return all readings of the steps, and last what is chosen in the folds.

    It is empty if no solution has scores of two steps, or if labels are about steps and not about whole solutions.
    """
    table = _whole(found)
    if table is None:
        return ()
    raw = {name: Rows(table.assign(reward=table[name])) for name in READINGS}
    rows = raw[_LAST]
    squared = {name: (each.reward - each.label) ** 2 for name, each in raw.items()}
    after = {name: np.empty(len(rows.label)) for name in READINGS}
    chosen, on_top, errors = (np.empty(len(rows.label)) for _ in range(3))
    for held in _parts(rows, OUTER):
        for name in READINGS:
            after[name][held] = _errors(raw[name], ~held, held)
        best = min(READINGS, key=lambda name: squared[name][~held].mean())
        chosen[held], errors[held] = squared[best][held], (raw[best].reward - rows.label)[held]
        best = min(READINGS, key=lambda name: _inner_error(raw[name], ~held))
        on_top[held] = after[best][held]

    def read(name: str, brier: Floats, calibrated: Floats, error: Floats, auc: Number | None) -> Read:
        return Read(
            name,
            mean_of(error, rows, signed_interval),
            mean_of(brier, rows, error_interval),
            over_folds(calibrated, rows, error_interval),
            over_folds(squared[_LAST] - brier, rows, gain_interval),
            auc,
        )

    single = [
        read(
            name,
            squared[name],
            after[name],
            raw[name].reward - rows.label,
            area_within(table.assign(reward=table[name])),
        )
        for name in READINGS
    ]
    return (*single, read(CHOSEN, chosen, on_top, errors, None))


def sentences(rows: Sequence[Read]) -> Iterator[str]:
    """Yield what the last step is worth as a chance of a right answer, and whether another reading is worth more."""
    if not rows:
        return
    last, chosen = rows[0], rows[-1]
    best = min(rows[:-1], key=lambda row: row.brier.value)
    auc = "" if last.auc is None else f", AUC within questions {quantity(last.auc)}"
    yield (
        f"Whole solutions, read by the last step: score - label {quantity(last.error, signed=True)}, Brier score "
        f"{quantity(last.brier)}{auc}."
    )
    if chosen.cut.low <= 0 or best is last:
        yield f"No other reading of the steps clearly beats the last: {quantity(chosen.cut)}."
        return
    auc = "" if best.auc is None else f", AUC within questions {quantity(best.auc)}"
    yield (
        f"Read the {WORDS[best.reading]}: Brier score {number(last.brier.value)} to {quantity(best.brier)}{auc}. "
        f"Chosen in folds, the reading cuts {quantity(chosen.cut)}. With '{_ON_TOP}' on top "
        f"{number(best.calibrated.value)}; '{_ON_TOP}' on the last step alone {number(last.calibrated.value)}."
    )


def _whole(found: Scored) -> pd.DataFrame | None:
    """Return each solution with a label and its scores by all readings; None if these are not to be compared."""
    steps = found.prefixes[found.prefixes["step"] > 0].sort_values(["question", "solution", "step"])
    if found.target in ("first error", "step") or steps.empty:
        return None
    keys = ["question", "solution"]
    ends = steps.groupby(keys, sort=False).size().cumsum().to_numpy()
    if len(ends) == len(steps):
        return None
    scores = np.split(steps["reward"].to_numpy(), ends[:-1])
    values = {name: read_steps(scores, name) for name in READINGS}
    table = steps[keys].drop_duplicates().assign(**values)
    table = table.merge(found.solutions[[*keys, "label"]], on=keys).dropna(subset="label")
    return table.astype({"label": np.float64}) if len(table) else None


def _parts(rows: Rows, count: int, seed: int = 0) -> Iterator[Bools]:
    folds = folds_of(rows.question, count, seed)
    for fold in np.unique(folds):
        yield folds == fold


def _errors(rows: Rows, train: Bools, held: Bools) -> Floats:
    """Return the squared errors of held-out rows after a fit to others."""
    return np.asarray((predicted(fitted(_ON_TOP, rows, train), rows, held) - rows.label[held]) ** 2)


def _inner_error(rows: Rows, part: Bools) -> float:
    """Return the Brier score after a calibrator, by folds within some of the rows."""
    return sum(
        float(_errors(rows, part & ~held, part & held).sum())
        for held in _parts(rows, INNER, seed=1)
        if (part & held).any() and (part & ~held).any()
    )
