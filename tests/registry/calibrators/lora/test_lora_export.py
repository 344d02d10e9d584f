"""An exported calibrated PRM has the scores of the PRM with its adapter."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit

from prmcal import ScoredPrefixes
from prmcal.errors import PluginFailedError
from prmcal.registry.calibrators.lora.calibrator import QuantileLora
from prmcal.registry.models.architectures import QwenRewardModel
from prmcal.registry.models.checkpoints import resolve_checkpoint
from prmcal.registry.plugins import calibrators, prms
from tests.registry.calibrators.lora.test_lora import QUICK, ThreeClassPRM, labels, scored
from tests.registry.create import create_as


def fitted(prm: Any, **arguments: Any) -> tuple[QuantileLora, ScoredPrefixes]:
    features = scored(prm, 3)
    built = create_as(QuantileLora, calibrators, "quantile-lora", **{**QUICK, "learning_rate": 0.05, **arguments})
    return built.fit(features, *labels(features)), features


@pytest.fixture(scope="module")
def prm(reward_folder: Path) -> Any:
    return prms.create("qwen", checkpoint=str(reward_folder), device="cpu")


@pytest.fixture(scope="module", params=["lora", "full"])
def exported(
    prm: Any, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> tuple[Path, np.ndarray, ScoredPrefixes]:
    """The checkpoint, and the predictions of calibrator and PRM before the export."""
    calibrator, features = fitted(prm, head=request.param)
    folder = tmp_path_factory.mktemp("exported")
    predicted = calibrator.predict(features)
    calibrator.export(prm, folder)
    return folder, predicted, features


def logits_of(prm: Any, features: ScoredPrefixes) -> np.ndarray:
    scores = [prm.score(each.question, [each.steps])[0] for each in features.prefixes]
    return np.array([each.logit[-1] for each in scores], dtype=np.float64)


def test_its_reward_is_the_calibrated_median(exported: tuple[Path, np.ndarray, ScoredPrefixes]) -> None:
    folder, predicted, features = exported
    rewards = expit(logits_of(prms.create("qwen", checkpoint=str(folder), device="cpu"), features))
    np.testing.assert_allclose(rewards, predicted[:, 1], atol=1e-5)
    assert np.abs(rewards - expit(features.logit)).max() > 0.05


@pytest.mark.parametrize(("level", "called"), [(0.1, "the 0.1-quantile"), (0.5, "the median")])
def test_its_reward_is_the_calibrated_quantile_of_the_chosen_level(
    level: float, called: str, prm: Any, tmp_path: Path
) -> None:
    calibrator, features = fitted(prm, epochs=1)
    predicted = calibrator.predict(features)
    calibrator.export(prm, tmp_path / "out", level)
    rewards = expit(logits_of(prms.create("qwen", checkpoint=str(tmp_path / "out"), device="cpu"), features))
    np.testing.assert_allclose(rewards, predicted[:, calibrator.levels.index(level)], atol=1e-5)
    assert f"the reward is {called}" in (tmp_path / "out" / "README.md").read_text()
    assert json.loads((tmp_path / "out" / "config.json").read_text())["reward_level"] == level


def test_its_outputs_are_the_quantiles(exported: tuple[Path, np.ndarray, ScoredPrefixes]) -> None:
    """As the card says: the sigmoids of the sorted outputs at the marker are the quantiles."""
    folder, predicted, features = exported
    reader = prms.create("qwen", checkpoint=str(folder), device="cpu")
    model = QwenRewardModel.from_pretrained(folder).eval()
    for row, prefix in enumerate(features.prefixes[:6]):
        ids = torch.tensor([reader.prefix_ids(prefix.question, prefix.steps)])  # type: ignore[attr-defined]
        with torch.no_grad():
            outputs = model(input_ids=ids)[0, -1]
        np.testing.assert_allclose(outputs.sort().values.sigmoid().numpy(), predicted[row], atol=1e-5)


def test_it_says_what_it_is(exported: tuple[Path, np.ndarray, ScoredPrefixes]) -> None:
    folder, _, features = exported
    config = json.loads((folder / "config.json").read_text())
    assert (config["architectures"], config["levels"]) == (["Qwen2ForQuantileRewardModel"], [0.1, 0.5, 0.9])
    card = json.loads((folder / "calibrator.json").read_text())
    assert card["rows"] == len(features)
    readme = (folder / "README.md").read_text()
    assert f"{len(features)} prefixes" in readme
    assert str(folder.parent) not in readme + json.dumps(config)
    assert resolve_checkpoint(str(folder)) == folder


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640)])
def test_all_its_files_have_the_mode_that_the_umask_gives(umask: int, mode: int, prm: Any, tmp_path: Path) -> None:
    calibrator, _ = fitted(prm, epochs=1)
    before = os.umask(umask)
    try:
        calibrator.export(prm, tmp_path / "out")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "out").iterdir()}
    assert "model.safetensors" in modes
    assert set(modes.values()) == {mode}, modes


def test_an_exported_prm_can_be_calibrated_again(exported: tuple[Path, np.ndarray, ScoredPrefixes]) -> None:
    calibrator, features = fitted(prms.create("qwen", checkpoint=str(exported[0]), device="cpu"), epochs=1)
    assert calibrator.predict(features).shape == (len(features), 3)


def test_a_head_of_another_form_is_refused(reward_folder: Path, tmp_path: Path) -> None:
    prm = ThreeClassPRM(str(reward_folder), device="cpu")
    calibrator, _ = fitted(prm, epochs=1)
    with pytest.raises(
        PluginFailedError,
        match=r"Only a head like that of .* can be exported: two linear layers",
    ):
        calibrator.export(prm, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_prm_of_another_format_and_a_level_that_is_not_predicted_are_refused(prm: Any, tmp_path: Path) -> None:
    calibrator, _ = fitted(prm, epochs=1, quantiles=(0.1, 0.9))
    with pytest.raises(
        PluginFailedError, match=r"does not predict the level 0\.5\. Choose one of its levels: 0\.1, 0\.9\."
    ):
        calibrator.export(prm, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    other: Any = prms.create("shepherd", checkpoint="nano:shepherd")
    with pytest.raises(PluginFailedError, match=r"Only PRMs in Qwen's format can be exported.*'shepherd'"):
        fitted(other, epochs=1)[0].export(other, tmp_path / "out")
