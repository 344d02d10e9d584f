"""The calibrator that an audit leaves in a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prmcal.errors import DataError
from prmcal.log_odds import log_odds, probability
from prmcal.registry.messages import reading
from prmcal.registry.plugins import calibrators

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from prmcal.arrays import Floats
    from prmcal.registry.contracts.calibrator import Calibrator

_FILE, _FOLDER = "calibrator.json", "calibrator"
"""The file that describes the calibrator, and the folder into which it saves itself."""
_FORMAT = 2


class SavedCalibrator:
    """A calibrator that an audit has left.

    Parameters
    ----------
    calibrator : Calibrator
        A fitted one that reads the reward or the logit.
    scale : str
        The scale of the audited scores: ``probability`` or ``logit``.
    """

    def __init__(self, calibrator: Calibrator, scale: str) -> None:
        self.scale = scale
        self._calibrator = calibrator

    @property
    def name(self) -> str:
        """The name of the calibrator, such as ``platt``; ``uncalibrated`` if none is better than the scores."""
        return self._calibrator.plugin_name

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


def save(directory: Path, calibrator: Calibrator, scale: str) -> None:
    """Write a fitted calibrator into a folder."""
    calibrator.save(directory / _FOLDER)
    card = {"format": _FORMAT, "name": calibrator.plugin_name, "scale": scale}
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
        return SavedCalibrator(calibrator, card["scale"])
