"""The calibrator that an audit writes, and the values that tell if new questions are like the audited ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prmcal.db.statistics.shift import ShiftAlarm
from prmcal.errors import DataError
from prmcal.log_odds import log_odds
from prmcal.registry.messages import reading
from prmcal.registry.plugins import calibrators
from prmcal.registry.reading.scales import Scale

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

    from prmcal.arrays import Floats
    from prmcal.registry.contracts.calibrator import Calibrator

_FILE, _FOLDER = "calibrator.json", "calibrator"
"""The file that describes the calibrator, and the folder into which it saves itself."""
_FORMAT = 3
_QUESTIONS = 1000
"""The largest number of questions that are kept for the alarm. More values hardly sharpen the test."""


@dataclass(frozen=True, eq=False)
class SavedCalibrator:
    """A calibrator that an audit has written."""

    calibrator: Calibrator
    """A fitted one that reads the reward or the logit; ``uncalibrated`` if none is better than the scores."""
    scale_of_scores: Scale
    questions: Mapping[str, Sequence[float | None]]
    """Values of the audited questions, by the names that an alarm compares."""
    field: str | None
    """The field of the audited scores."""
    files: tuple[str, ...]
    """The audited files."""

    @property
    def scale(self) -> str:
        """The name of the scale, such as ``probability`` or ``logit``."""
        return self.scale_of_scores.name

    def alarm(self) -> ShiftAlarm:
        """Return an alarm for questions that are not like the audited ones. The alarm has seen no question yet."""
        return ShiftAlarm({name: np.array(values, dtype=np.float64) for name, values in self.questions.items()})

    def predict(self, scores: ArrayLike) -> Floats:
        """Return calibrated rewards in [0, 1], of the shape of the scores. NaN stays NaN.

        Scores have the scale of the audited file: probabilities, log-odds, percent, grades or ranks. Raises a
        ValueError if a score is not on this scale, or is not finite.
        """
        scores = np.asarray(scores, dtype=np.float64)
        has_score = ~np.isnan(scores)
        features = scores[has_score]
        if self.calibrator.reads == "logit" and self.scale == "logit":
            features = -features if self.scale_of_scores.reverse else features
        else:
            features = self.scale_of_scores.rewards(features)
            features = log_odds(features) if self.calibrator.reads == "logit" else features
        rewards = np.full(scores.shape, np.nan)
        rewards[has_score] = self.calibrator.predict_at(features, [0.5])[:, 0]
        return rewards


def save(
    folder: Path, calibrator: Calibrator, scale: Scale, questions: pd.DataFrame, field: str | None, files: Sequence[str]
) -> None:
    """Write a fitted calibrator into a folder, with the values of the audited questions that an alarm compares."""
    calibrator.save(folder / _FOLDER)
    compared = questions.sample(min(len(questions), _QUESTIONS), random_state=0).astype(object)
    values = compared.where(compared.notna(), None).to_dict("list")
    card = {"format": _FORMAT, "name": calibrator.plugin_name, "scale": asdict(scale), "field": field}
    card |= {"files": list(files), "questions": values}
    (folder / _FILE).write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")


def load_calibrator(directory: str | Path) -> SavedCalibrator:
    """Load the calibrator that ``prmcal audit FILE --out DIR`` has written into DIR.

    Raises a DataError if the folder has no audit, or if an older or a newer prmcal wrote it.
    """
    path = Path(directory) / _FILE
    with reading(f"There is no calibrator in {directory}", "Make one: prmcal audit FILE --out DIR."):
        card = json.loads(path.read_text(encoding="utf-8"))
        if card["format"] > _FORMAT:
            raise DataError(f"A newer version of prmcal wrote {path}. Update prmcal to read it.")
        if card["format"] < _FORMAT:
            audit = f"prmcal audit FILE --out {directory}"
            raise DataError(f"An older version of prmcal wrote {path}. Audit again: {audit}.")
        calibrator = calibrators.create(card["name"]).load(path.with_name(_FOLDER))
        scale = Scale(**card["scale"])
        return SavedCalibrator(calibrator, scale, card["questions"], card["field"], tuple(card["files"]))
