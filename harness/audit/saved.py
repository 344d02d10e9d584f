"""The calibrator that an audit leaves: a small file of numbers, which NumPy alone reads and applies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prmcal.db.statistics.shift import ShiftAlarm
from prmcal.errors import DataError
from prmcal.log_odds import log_odds, probability
from prmcal.registry.messages import reading, refuse_device

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

    from prmcal.arrays import Floats
    from prmcal.registry.contracts.calibrator import Calibrator

FILE = "calibrator.json"
_FORMAT = 1
_QUESTIONS = 1000
"""The largest number of questions that are kept for the alarm. More of them hardly sharpen it."""


def parameters_of(name: str, calibrator: Calibrator) -> dict[str, Any]:
    """Return the numbers of a fitted calibrator that reads the score alone."""
    fitted: Any = calibrator
    if name == "temperature":
        return {"map": "logistic", "slope": 1 / fitted.temperature_, "offset": 0.0}
    if name == "platt":
        return {"map": "logistic", "slope": fitted.slope_, "offset": fitted.offset_}
    if name == "beta":
        return {"map": "beta", "a": fitted.a_, "b": fitted.b_, "c": fitted.c_}
    if name == "isotonic":
        return {"map": "linear", "x": fitted.rewards_.tolist(), "y": fitted.success_rates_.tolist()}
    if name == "histogram":
        return {"map": "steps", "x": fitted.edges_[1:-1].tolist(), "y": fitted.success_rates_.tolist()}
    return {"map": "none"}


class SavedCalibrator:
    """A calibrator that an audit has left.

    Parameters
    ----------
    saved : mapping
        The content of its file.
    """

    def __init__(self, saved: dict[str, Any]) -> None:
        self.name: str = saved["name"]
        self.scale: str = saved["scale"]
        self._map: dict[str, Any] = saved["parameters"]
        self._questions: dict[str, list[float | None]] = saved.get("questions", {})

    def alarm(self) -> ShiftAlarm:
        """Return an alarm for questions that are not like the audited ones. It has seen no question yet."""
        return ShiftAlarm({name: np.array(each, dtype=np.float64) for name, each in self._questions.items()})

    @np.errstate(invalid="ignore")  # NaN stays NaN.
    def predict(self, scores: ArrayLike) -> Floats:
        """Return calibrated rewards in [0, 1], of the shape of the scores. NaN stays NaN.

        Scores have the scale of the audited file: probabilities, or log-odds. Raises a ValueError if a probability is
        not in [0, 1].
        """
        given = np.asarray(scores, dtype=np.float64)
        if self.scale == "probability":
            if np.any((given < 0) | (given > 1)):
                raise ValueError("The calibrator was fitted to probabilities. Each score must be in [0, 1].")
            rewards = given
            logits = log_odds(given)
        else:
            logits, rewards = given, probability(given)
        found = self._map
        if found["map"] == "logistic":
            return probability(found["slope"] * logits + found["offset"])
        if found["map"] == "beta":
            rises, falls = -np.logaddexp(0, -logits), np.logaddexp(0, logits)
            return probability(found["a"] * rises + found["b"] * falls + found["c"])
        if found["map"] == "linear":
            return np.asarray(np.clip(np.interp(rewards, found["x"], found["y"]), 0.0, 1.0))
        if found["map"] == "steps":
            known = np.asarray(found["y"])[np.searchsorted(found["x"], rewards, side="right")]
            return np.where(np.isnan(rewards), np.nan, known)
        return np.array(rewards)


def save(directory: Path, name: str, scale: str, parameters: dict[str, Any], questions: pd.DataFrame) -> None:
    """Write a calibrator into a folder, with the values of the audited questions that an alarm compares."""
    kept = questions.sample(min(len(questions), _QUESTIONS), random_state=0).astype(object)
    content = {
        "format": _FORMAT,
        "name": name,
        "scale": scale,
        "parameters": parameters,
        "questions": kept.where(kept.notna(), None).to_dict("list"),
    }
    (directory / FILE).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def load_calibrator(directory: str | Path) -> SavedCalibrator:
    """Load the calibrator that ``prmcal audit FILE --out DIR`` has written into DIR.

    Raises a DataError if there is none, or if a newer prmcal wrote it.
    """
    path = Path(directory) / FILE
    with reading(f"There is no calibrator in {directory}", "Make one: prmcal audit FILE --out DIR."):
        refuse_device(path)
        saved = json.loads(path.read_text(encoding="utf-8"))
        if saved["format"] > _FORMAT:
            raise DataError(f"A newer version of prmcal wrote {path}. Update prmcal to read it.")
        return SavedCalibrator(saved)
