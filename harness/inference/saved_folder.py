"""A calibrated PRM as a folder that can be copied: everything but the models' weights, which its plugins name.

FOLDER/calibrated_prm.json       the plugins, the sampling and the defaults
FOLDER/calibrator/               the fitted calibrator
FOLDER/calibration.safetensors   scores and grades of the calibration questions, without any text
FOLDER/rewards.safetensors       calibrated rewards of the bare calibration questions
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prmcal import __version__
from prmcal.harness.inference.asking import Defaults
from prmcal.harness.inference.calibration_questions import CalibrationQuestions
from prmcal.harness.inference.models import Models
from prmcal.harness.inference.rewarding import Rewarder
from prmcal.harness.jobs.parameters import PluginReference
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.registry.contracts.data import Sampling
from prmcal.registry.plugins import calibrators, llms, prms
from prmcal.registry.reading import reading

if TYPE_CHECKING:
    from prmcal.harness.inference.calibrated_prm import CalibratedPRM

__all__ = ["FILE", "Card", "load", "save"]

FILE = "calibrated_prm.json"
_CALIBRATOR = "calibrator"
_REWARDS = "rewards.safetensors"


@dataclass(frozen=True)
class Card:
    """What the folder names.

    Attributes
    ----------
    name : str
        The cell that it was saved from.
    llm, prm, calibrator, strategy : PluginReference
    sampling : Sampling
    levels : tuple of float
        The levels of the grid.
    target, level : float or None
    max_samples : int
    """

    name: str
    llm: PluginReference
    prm: PluginReference
    calibrator: PluginReference
    sampling: Sampling
    levels: tuple[float, ...]
    strategy: PluginReference
    target: float | None
    level: float | None
    max_samples: int


def save(folder: Path, card: Card, fitted: Path, models: Models) -> None:
    """Write the folder.

    Parameters
    ----------
    folder : Path
    card : Card
    fitted : Path
        The folder of the fitted calibrator.
    models : Models
        With calibration questions. Their rewards are computed if they are not known yet.
    """
    from safetensors.numpy import save_file

    rewards = models.question_rewards
    shutil.copytree(fitted, folder / _CALIBRATOR)
    assert models.calibration is not None
    models.calibration.save(folder)
    if rewards is not None:
        save_file({"question_rewards": rewards}, folder / _REWARDS)
    content = {"prmcal": __version__, **asdict(card)}
    (folder / FILE).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def load(folder: Path) -> CalibratedPRM:
    """Read a folder.

    Raises
    ------
    DataError
        If it is damaged.
    PluginError
        If one of its plugins is not available.
    """
    from safetensors.numpy import load_file

    from prmcal.harness.inference.calibrated_prm import CalibratedPRM

    with reading(f"{folder} does not hold a calibrated PRM", "Save it again."):
        content = json.loads((folder / FILE).read_text(encoding="utf-8"))
        references = {
            kind: PluginReference(**content[kind]) for kind in ("llm", "prm", "calibrator", "strategy")
        }
        given = content["sampling"]
        sampling = Sampling(**{**given, "stop": tuple(given["stop"])})
        levels = tuple(float(each) for each in content["levels"])
        target, level, most = content["target"], content["level"], int(content["max_samples"])
        name = str(content["name"])
        rewards = folder / _REWARDS
        question_rewards = load_file(rewards)["question_rewards"] if rewards.exists() else None
    calibrator = references["calibrator"]
    with plugin_guard("calibrator", calibrator.name, "load"):
        loaded = calibrator.build(calibrators).load(folder / _CALIBRATOR)
    rewarder = Rewarder(
        references["prm"].build(prms), references["prm"].name, loaded, calibrator.name, levels
    )
    models = Models(
        references["llm"].build(llms),
        references["llm"].name,
        rewarder,
        sampling,
        CalibrationQuestions.load(folder),
        question_rewards,
    )
    defaults = Defaults(references["strategy"], target, level, most, {})
    return CalibratedPRM(
        models,
        defaults,
        name=f"{folder} ({name})",
        prm=references["prm"].name,
        calibrator=calibrator.name,
    )
