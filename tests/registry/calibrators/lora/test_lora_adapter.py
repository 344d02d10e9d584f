"""The calibrator `quantile-adapter`: an adapter in the layout of the paper's code gives the same predictions."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from torch import nn

from prmcal import ScoredPrefixes
from prmcal.errors import InvalidArgumentsError, PluginFailedError
from prmcal.registry.calibrators.lora.calibrator import QuantileAdapter
from prmcal.registry.models.architectures import QwenRewardModel
from prmcal.registry.models.pretrained import load_pretrained
from prmcal.registry.plugins import calibrators, prms
from tests.registry.calibrators.lora.test_lora import ThreeClassPRM, labels, scored

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"


def as_published(
    checkpoint: str, folder: Path, targets: tuple[str, ...] = ("q_proj", "v_proj"), seed: int = 5
) -> PeftModel:
    """Save an adapter with random updates for a model with three outputs that start at good - bad."""
    model = load_pretrained(QwenRewardModel, checkpoint, "float32", "cpu")
    assert isinstance(model, QwenRewardModel)
    old = model.score[2]
    assert isinstance(old, nn.Linear)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        last = nn.Linear(old.in_features, 3)
        last.weight[:] = old.weight[1] - old.weight[0]
        last.bias[:] = old.bias[1] - old.bias[0]
        model.score[2] = last
        names = ["score.0", "score.2", *targets]
        config = LoraConfig(r=2, lora_alpha=32, lora_dropout=0.1, target_modules=names, layers_to_transform=[1])
        wrapped = get_peft_model(model, config)
        for name, weight in wrapped.named_parameters():
            if "lora_" in name:
                weight.normal_(0, 0.05)
    wrapped.eval().save_pretrained(str(folder))
    assert isinstance(wrapped, PeftModel)
    return wrapped


@pytest.fixture(scope="module")
def published(reward_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PeftModel]:
    folder = tmp_path_factory.mktemp("published")
    return folder, as_published(str(reward_folder), folder)


@pytest.fixture(scope="module")
def features(reward_folder: Path) -> ScoredPrefixes:
    return scored(prms.create("qwen", checkpoint=str(reward_folder), device="cpu"), 2)


@pytest.fixture(scope="module")
def fitted(published: tuple[Path, PeftModel], features: ScoredPrefixes) -> QuantileAdapter:
    built = calibrators.create("quantile-adapter", adapter=str(published[0]))
    built.fit(features, *labels(features))
    assert isinstance(built, QuantileAdapter)
    return built


def test_its_quantiles_are_those_of_the_published_model(
    published: tuple[Path, PeftModel], fitted: QuantileAdapter, features: ScoredPrefixes
) -> None:
    predicted = fitted.predict(features)
    prm: Any = features.prm
    for row, prefix in enumerate(features.prefixes):
        ids = torch.tensor([prm.prefix_ids(prefix.question, prefix.steps)])
        with torch.no_grad():
            expected = published[1](input_ids=ids)[0, -1].sigmoid().sort().values
        np.testing.assert_allclose(predicted[row], expected.numpy(), atol=1e-5)
    assert np.abs(predicted[:, 1] - 1 / (1 + np.exp(-features.logit))).max() > 0.02


def test_it_is_saved_and_exported_as_a_trained_one_is(
    fitted: QuantileAdapter, features: ScoredPrefixes, reward_folder: Path, tmp_path: Path
) -> None:
    fitted.save(tmp_path / "saved")
    again = calibrators.create("quantile-adapter", adapter=fitted.adapter).load(tmp_path / "saved")
    predicted = fitted.predict(features)
    np.testing.assert_array_equal(again.predict(features), predicted)
    again.export(prms.create("qwen", checkpoint=str(reward_folder), device="cpu"), tmp_path / "exported")
    served = prms.create("qwen", checkpoint=str(tmp_path / "exported"), device="cpu")
    rewards = [served.score(each.question, [each.steps])[0].reward[-1] for each in features.prefixes]
    np.testing.assert_allclose(rewards, predicted[:, 1], atol=1e-5)
    assert str(tmp_path) not in (tmp_path / "exported" / "README.md").read_text()


def test_it_is_known_by_its_files(published: tuple[Path, PeftModel], tmp_path: Path) -> None:
    shutil.copytree(published[0], tmp_path, dirs_exist_ok=True)
    here, there = (calibrators.create("quantile-adapter", adapter=str(each)) for each in (published[0], tmp_path))
    assert here.identity() == there.identity()
    weights = load_file(tmp_path / WEIGHTS)
    save_file({name: weight + 1 for name, weight in weights.items()}, tmp_path / WEIGHTS)
    assert here.identity() != there.identity()


def test_what_is_no_such_adapter_is_refused(
    published: tuple[Path, PeftModel], features: ScoredPrefixes, reward_folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"has no adapter_config.json. Give 'adapter' the folder"):
        calibrators.create("quantile-adapter", adapter=str(tmp_path))
    shutil.copytree(published[0], tmp_path, dirs_exist_ok=True)
    cases = [
        ({"quantiles": (0.1, 0.9)}, "updates 3 outputs of the head's last layer"),
        ({}, "has more than low-rank updates of linear layers: use_dora"),
    ]
    settings = json.loads((tmp_path / CONFIG).read_text())
    (tmp_path / CONFIG).write_text(json.dumps(settings | {"use_dora": True}))
    for (arguments, message), folder in zip(cases, (published[0], tmp_path), strict=True):
        built = calibrators.create("quantile-adapter", adapter=str(folder), **arguments)
        with pytest.raises(PluginFailedError, match=message):
            built.fit(features, *labels(features))
    (tmp_path / WEIGHTS).write_bytes(b"no weights")
    with pytest.raises(PluginFailedError, match="does not hold an adapter that PEFT wrote"):
        built.fit(features, *labels(features))
    other = ThreeClassPRM(str(reward_folder), device="cpu")
    with pytest.raises(PluginFailedError, match="weights do not fit this PRM"):
        calibrators.create("quantile-adapter", adapter=str(published[0])).fit(
            scored(other, 1), *labels(scored(other, 1))
        )
    with pytest.raises(PluginFailedError, match="Only adapters of PRMs in Qwen's format"):
        shepherd = prms.create("shepherd", checkpoint="nano:shepherd", device="cpu")
        foreign = ScoredPrefixes(shepherd, features.prefixes, features.logit)
        calibrators.create("quantile-adapter", adapter=str(published[0])).fit(foreign, *labels(features))
