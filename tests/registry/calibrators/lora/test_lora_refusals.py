"""What the calibrator `quantile-lora` refuses, and what its messages say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prmcal import PRM, PrefixScores, ScoredPrefixes
from prmcal.errors import DataError, InvalidArgumentsError, PluginFailedError
from prmcal.registry.calibrators.lora.calibrator import QuantileLora
from prmcal.registry.plugins import prms
from tests.registry.calibrators.lora.test_lora import create, labels, scored


@pytest.fixture(scope="module")
def features(reward_folder: Path) -> ScoredPrefixes:
    return scored(prms.create("qwen", checkpoint=str(reward_folder), device="cpu"))


@pytest.fixture(scope="module")
def fitted(features: ScoredPrefixes) -> QuantileLora:
    return create(epochs=1).fit(features, *labels(features))


@pytest.mark.parametrize("name", ["adapter_config.json", "adapter_model.safetensors", "calibrator.json"])
@pytest.mark.parametrize("damage", ["gone", "cut", "changed"])
def test_a_damaged_folder_is_refused(name: str, damage: str, fitted: QuantileLora, tmp_path: Path) -> None:
    fitted.save(tmp_path)
    path = tmp_path / name
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(content[:-20] if damage == "cut" else content.replace(b":", b";", 1))
    with pytest.raises(DataError, match="Fit it again"):
        create().load(tmp_path)


def test_another_prm_is_refused(fitted: QuantileLora, features: ScoredPrefixes, reward_folder: Path) -> None:
    other: Any = prms.create("qwen", checkpoint=str(reward_folder), max_tokens=2048, device="cpu")
    with pytest.raises(PluginFailedError, match=r"fitted to another PRM.*was 4096 and is 2048.*Fit it to this PRM"):
        fitted.predict(ScoredPrefixes(other, features.prefixes, features.logit))


def test_a_prm_that_is_no_transformers_model_is_refused(features: ScoredPrefixes) -> None:
    class Constant(PRM):
        def score(self, question: str, trajectories: Any) -> list[PrefixScores]:
            raise NotImplementedError

    with pytest.raises(PluginFailedError, match=r"must derive from prmcal\.TransformersPRM"):
        create().fit(ScoredPrefixes(Constant(), features.prefixes, features.logit), *labels(features))


def test_an_unfitted_one_says_so(features: ScoredPrefixes, tmp_path: Path) -> None:
    with pytest.raises(PluginFailedError, match="'quantile-lora' is not fitted"):
        create().predict(features)
    with pytest.raises(PluginFailedError, match="'quantile-lora' is not fitted"):
        create().save(tmp_path)


def test_a_loss_that_is_no_number_stops_the_fit(features: ScoredPrefixes) -> None:
    with pytest.raises(PluginFailedError, match=r"became NaN at .*step.*\. Lower the learning rate \(1e\+38"):
        create(learning_rate=1e38).fit(features, *labels(features))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layers": (3,)}, "layers 0 to 2"),
        ({"layers": "every fourth"}, "layers 0 to 2, but the 'layers' parameter is 'every fourth'"),
        ({"target_modules": ("w_proj",)}, "no linear module 'w_proj'.*q_proj"),
    ],
)
def test_modules_that_are_not_there_are_named(
    arguments: dict[str, Any], message: str, features: ScoredPrefixes
) -> None:
    with pytest.raises(PluginFailedError, match=message):
        create(**arguments).fit(features, *labels(features))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rank": 0}, r"'rank' parameter of the .* must be greater than or equal to 1"),
        ({"alpha": -1.0}, r"'alpha' parameter of the .* must be greater than 0"),
        ({"dropout": 1.0}, r"'dropout' parameter of the .* must be less than 1"),
        ({"layers": []}, "'layers' parameter"),
        ({"layers": [1, 1]}, "'layers' parameter"),
        (
            {"layers": "some"},
            "'layers' parameter of the .* must be 'every fourth', 'all' or a list of layers.* Got 'some'",
        ),
        ({"target_modules": []}, "'target_modules' parameter"),
        ({"quantiles": []}, "'quantiles' parameter"),
        ({"quantiles": [0.5, 0.1]}, r"must be levels that ascend within \(0, 1\)\. Got \[0\.5, 0\.1\]"),
        ({"quantiles": [0.0, 0.5]}, "'quantiles' parameter"),
        ({"epochs": 0}, r"'epochs' parameter of the .* must be greater than or equal to 1"),
        ({"learning_rate": 0.0}, r"'learning_rate' parameter of the .* must be greater than 0"),
        ({"learning_rate": float("nan")}, "'learning_rate' parameter"),
        ({"batch_size": 0}, r"'batch_size' parameter of the .* must be greater than or equal to 1"),
        ({"seed": -1}, r"'seed' parameter of the .* must be greater than or equal to 0"),
        ({"loss": "absolute"}, "'loss' parameter of the .* must be 'quantile' or 'mse'"),
        ({"head": "none"}, "'head' parameter of the .* must be 'lora' or 'full'"),
        ({"batches": "questions"}, "'batches' parameter of the .* must be 'trajectories' or 'prefixes'"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=message):
        create(**arguments)
