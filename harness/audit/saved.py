"""The calibrator that an audit leaves in a folder, and what tells if new questions are like the audited ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prmcal.db.statistics.shift import ShiftAlarm
from prmcal.errors import DataError
from prmcal.log_odds import log_odds, probability
from prmcal.registry.messages import reading
from prmcal.registry.plugins import calibrators

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

    from prmcal.arrays import Floats
    from prmcal.registry.contracts.calibrator import Calibrator

_FILE, _FOLDER = "calibrator.json", "calibrator"
"""The file that describes the calibrator, and the folder into which it saves itself."""
_FORMAT = 2
_QUESTIONS = 1000
"""The largest number of questions that are kept for the alarm. More of them hardly sharpen it."""


class SavedCalibrator:
    """A calibrator that an audit has left.

    Parameters
    ----------
    calibrator : Calibrator
        A fitted one that reads the reward or the logit.
    scale : str
        The scale of the audited scores: ``probability`` or ``logit``.
    questions : mapping of str to sequence of float or None
        Values of the audited questions, by the names that an alarm compares.
    """

    def __init__(
        self, calibrator: Calibrator, scale: str, questions: Mapping[str, Sequence[float | None]]
    ) -> None:
        self.scale = scale
        self._calibrator = calibrator
        self._questions = questions

    @property
    def name(self) -> str:
        """The name of the calibrator, such as ``platt``; ``uncalibrated`` if none is better than the scores."""
        return self._calibrator.plugin_name

    def alarm(self) -> ShiftAlarm:
        """Return an alarm for questions that are not like the audited ones. It has seen no question yet."""
        return ShiftAlarm(
            {name: np.array(values, dtype=np.float64) for name, values in self._questions.items()}
        )

    def predict(self, scores: ArrayLike) -> Floats:
        """Return calibrated rewards in [0, 1], of the shape of the scores. NaN stays NaN.

        Scores have the scale of the audited file: probabilities, or log-odds. Raises a ValueError if a probability is
        not in [0, 1], or a log-odds is not finite.
        """
        scores = np.asarray(scores, dtype=np.float64)
        scored = ~np.isnan(scores)
        features = scores[scored]
        if self.scale == "probability" and np.any((features < 0) | (features > 1)):
            raise ValueError("The calibrator was fitted to probabilities. Each score must be in [0, 1].")
        if self._calibrator.reads == "logit":
            features = log_odds(features) if self.scale == "probability" else features
        elif self.scale == "logit":
            features = probability(features)
        rewards = np.full(scores.shape, np.nan)
        rewards[scored] = self._calibrator.predict(features)[:, 0]
        return rewards


def save(directory: Path, calibrator: Calibrator, scale: str, questions: pd.DataFrame) -> None:
    """Write a fitted calibrator into a folder, with the values of the audited questions that an alarm compares."""
    calibrator.save(directory / _FOLDER)
    compared = questions.sample(min(len(questions), _QUESTIONS), random_state=0).astype(object)
    card = {
        "format": _FORMAT,
        "name": calibrator.plugin_name,
        "scale": scale,
        "questions": compared.where(compared.notna(), None).to_dict("list"),
    }
    (directory / _FILE).write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")


def load_calibrator(directory: str | Path) -> SavedCalibrator:
    """Load the calibrator that ``prmcal audit FILE --out DIR`` has written into DIR.

    Raises a DataError if there is none, or if an older or a newer prmcal wrote it.
    """
    path = Path(directory) / _FILE
    with reading(f"There is no calibrator in {directory}", "Make one: prmcal audit FILE --out DIR."):
        card = json.loads(path.read_text(encoding="utf-8"))
        if card["format"] > _FORMAT:
            raise DataError(f"A newer version of prmcal wrote {path}. Update prmcal to read it.")
        if card["format"] < _FORMAT:
            raise DataError(
                f"An older version of prmcal wrote {path}. Audit again: prmcal audit FILE --out {directory}."
            )
        calibrator = calibrators.create(card["name"]).load(path.with_name(_FOLDER))
        return SavedCalibrator(calibrator, card["scale"], card["questions"])
