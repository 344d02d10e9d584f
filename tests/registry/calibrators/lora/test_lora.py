"""The calibrator `quantile-lora`: its fits, its predictions and what it saves."""

from __future__ import annotations

import copy
import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import expit

from prmcal import PRM, FitSupport, Prefix, ScoredPrefixes
from prmcal.registry.calibrators.lora.calibrator import QuantileLora
from prmcal.registry.plugins import calibrators, prms
from prmcal.registry.prms.qwen import QwenPRM

QUICK = {"layers": (1,), "epochs": 2, "batch_size": 8, "learning_rate": 0.01}
"""The tiny PRM has three layers: none is a fourth."""


class ThreeClassPRM(QwenPRM):
    """A head of three classes without bias, with log-odds that are not linear, as in ReasonEval."""

    def load_model(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        trunk, _ = super().load_model()
        with torch.random.fork_rng():
            torch.manual_seed(3)
            return trunk, torch.nn.Linear(64, 3, bias=False)

    def log_odds(self, head: torch.Tensor) -> torch.Tensor:
        return torch.logsumexp(head[..., 1:], dim=-1) - head[..., 0]


def scored(prm: PRM, questions: int = 6) -> ScoredPrefixes:
    """Prefixes of three trajectories per question, two of them equal, with the PRM's scores."""
    prefixes: list[Prefix] = []
    logits: list[NDArray[np.float32]] = []
    for number in range(questions):
        text = f"Start with {number}. a) add 15, b) subtract 8."
        right = (f"a) {number}+15={number + 15}", f"b) {number + 15}-8=\\boxed{{{number + 7}}}")
        trajectories = (right, (f"a) {number}+15=42",), right)
        for steps, scores in zip(trajectories, prm.score(text, trajectories), strict=True):
            prefixes += [Prefix(text, steps[:count]) for count in range(len(steps) + 1)]
            logits.append(scores.logit)
    return ScoredPrefixes(prm, tuple(prefixes), np.concatenate(logits).astype(np.float64))


def labels(features: ScoredPrefixes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Success counts that depend on the text: about 6 of 8, and 0 after a mistake."""
    wrong = np.array([any("=42" in step for step in prefix.steps) for prefix in features.prefixes])
    k = np.random.default_rng(0).binomial(8, np.where(wrong, 0.05, 0.7))
    return k.astype(np.int64), np.full(len(features), 8)


@pytest.fixture(scope="module")
def reward_model(reward_folder: Path) -> PRM:
    built: PRM = prms.create("qwen", checkpoint=str(reward_folder), device="cpu")
    return built


@pytest.fixture(scope="module")
def features(reward_model: PRM) -> ScoredPrefixes:
    return scored(reward_model)


@pytest.fixture(scope="module", params=["lora", "full"])
def fitted(features: ScoredPrefixes, request: pytest.FixtureRequest) -> QuantileLora:
    return create(head=request.param).fit(features, *labels(features))


def create(**arguments: Any) -> QuantileLora:
    built = calibrators.create("quantile-lora", **{**QUICK, **arguments})
    assert isinstance(built, QuantileLora)
    return built


def saved(calibrator: QuantileLora, folder: Path) -> dict[str, bytes]:
    calibrator.save(folder)
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def state(prm: Any) -> list[Any]:
    """Everything in a PRM's modules that a fit could change."""
    return [
        [(name, type(each), each.training) for name, each in module.named_modules()]
        + [(name, id(each), each.requires_grad, each.grad) for name, each in module.named_parameters()]
        + [(name, tensor.numpy().tobytes()) for name, tensor in module.state_dict().items()]
        for module in prm.modules
    ]


@pytest.mark.parametrize("loss", ["quantile", "mse"])
@pytest.mark.parametrize("kind", [QwenPRM, ThreeClassPRM])
def test_the_first_prediction_is_the_own_reward(kind: type[QwenPRM], loss: str, reward_folder: Path) -> None:
    given = scored(kind(checkpoint=str(reward_folder), device="cpu"), questions=2)
    untrained = create(learning_rate=1e-15, epochs=1, loss=loss).fit(given, *labels(given))
    assert np.ptp(expit(given.logit)) > 0.01
    expected = np.repeat(expit(given.logit)[:, None], len(untrained.levels), axis=1)
    np.testing.assert_allclose(untrained.predict(given), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("arguments", [{}, {"loss": "mse"}, {"head": "full"}, {"batches": "prefixes"}], ids=str)
def test_a_fit_learns_and_leaves_the_prm_as_it_was(
    arguments: dict[str, Any], features: ScoredPrefixes, reward_model: PRM
) -> None:
    k, n = labels(features)
    before = state(reward_model)
    calibrator = create(epochs=15, **arguments).fit(features, k, n)
    predicted = calibrator.predict(features)
    assert state(reward_model) == before
    assert calibrator.card_["final_loss"] < 0.6 * calibrator.card_["first_loss"]
    assert predicted.shape == (len(features), len(calibrator.levels))
    assert predicted.dtype == np.float64
    assert predicted.min() >= 0
    assert predicted.max() <= 1
    assert (np.diff(predicted, axis=1) >= 0).all()
    middle = predicted[:, len(calibrator.levels) // 2]
    assert np.corrcoef(middle, k / n)[0, 1] > 0.5
    assert np.array_equal(scored(reward_model).logit, features.logit)


def test_the_head_gets_low_rank_updates_or_is_trained_in_full(features: ScoredPrefixes) -> None:
    weights = {
        head: {
            name.removeprefix("base_model.model."): tuple(weight.shape)
            for name, weight in create(head=head, epochs=1).fit(features, *labels(features)).adapter_.items()
        }
        for head in ("lora", "full")
    }
    of_trunk = {f"model.layers.1.self_attn.{module}_proj.lora_{side}.weight" for module in "qv" for side in "AB"}
    low_rank = {
        "score.layers.0.lora_A.weight": (2, 64),
        "score.layers.0.lora_B.weight": (64, 2),
        "score.layers.2.lora_A.weight": (2, 64),
        "score.layers.2.lora_B.weight": (3, 2),
    }
    in_full = {
        "score.layers.0.weight": (64, 64),
        "score.layers.0.bias": (64,),
        "score.layers.2.weight": (3, 64),
        "score.layers.2.bias": (3,),
    }
    for head, expected in (("lora", low_rank), ("full", in_full)):
        assert set(weights[head]) == of_trunk | set(expected)
        assert weights[head].items() >= expected.items()


def test_single_prefixes_are_trained_in_other_batches(features: ScoredPrefixes) -> None:
    whole, single = (
        create(batches=batches, epochs=1).fit(features, *labels(features)) for batches in ("trajectories", "prefixes")
    )
    assert single.card_["steps"] == round(len(features) / QUICK["batch_size"])  # type: ignore[operator]
    assert not np.array_equal(single.predict(features), whole.predict(features))


def test_a_bfloat16_trunk_trains_under_a_float32_head(reward_folder: Path) -> None:
    given = scored(prms.create("qwen", checkpoint=str(reward_folder), dtype="bfloat16", device="cpu"))
    calibrator = create(epochs=5).fit(given, *labels(given))
    assert {weights.dtype for weights in calibrator.adapter_.values()} == {torch.float32}
    assert calibrator.card_["final_loss"] < 0.8 * calibrator.card_["first_loss"]


def test_quantiles_that_cross_are_put_in_order(fitted: QuantileLora, features: ScoredPrefixes) -> None:
    crossing = copy.deepcopy(fitted)
    of_outputs = [
        name for name, weight in crossing.adapter_.items() if "layers.2." in name and len(weight) == len(fitted.levels)
    ]
    assert of_outputs
    for name in of_outputs:
        crossing.adapter_[name] = crossing.adapter_[name].flip(0)  # The highest level's output comes first.
    np.testing.assert_allclose(crossing.predict(features), fitted.predict(features), rtol=0, atol=1e-7)


def test_what_is_saved_is_what_is_loaded(
    fitted: QuantileLora, features: ScoredPrefixes, reward_folder: Path, tmp_path: Path
) -> None:
    files = saved(fitted, tmp_path / "saved")
    assert list(files) == ["adapter_config.json", "adapter_model.safetensors", "calibrator.json"]
    assert not any(str(reward_folder).encode() in content for content in files.values())
    card = json.loads(files["calibrator.json"])
    assert card["levels"] == [0.1, 0.5, 0.9]
    assert card["rows"] == len(features)
    assert card["prm"] == json.loads(json.dumps(features.prm.identity()))
    loaded = create().load(tmp_path / "saved")
    assert np.array_equal(loaded.predict(features), fitted.predict(features))
    assert saved(loaded, tmp_path / "again") == files


def test_peft_reads_the_adapter(fitted: QuantileLora, features: ScoredPrefixes, tmp_path: Path) -> None:
    from peft import PeftModel

    from prmcal.registry.calibrators.lora.fitting import predict_log_odds
    from prmcal.registry.calibrators.lora.model import quantile_model

    fitted.save(tmp_path)
    prm: Any = features.prm
    model = PeftModel.from_pretrained(quantile_model(prm, 3), tmp_path)
    log_odds = predict_log_odds(model, prm, features.prefixes, 3)
    assert np.array_equal(np.sort(expit(log_odds), axis=1), fitted.predict(features))


def test_the_same_fit_gives_the_same_bytes_and_nothing_else(
    fitted: QuantileLora,
    features: ScoredPrefixes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: Any,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    torch.rand(3), random.random(), np.random.rand()
    before = torch.get_rng_state(), random.getstate(), np.random.get_state(legacy=False), dict(os.environ)
    again = create(head=fitted.head).fit(features, *labels(features))
    after = torch.get_rng_state(), random.getstate(), np.random.get_state(legacy=False), dict(os.environ)
    assert torch.equal(before[0], after[0])
    np.testing.assert_equal(after[1:], before[1:])
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())
    files = saved(fitted, tmp_path / "one")
    assert saved(again, tmp_path / "two") == files
    other = create(head=fitted.head, seed=1).fit(features, *labels(features))
    weights = "adapter_model.safetensors"
    assert saved(other, tmp_path / "three")[weights] != files[weights]


def test_progress_is_reported(features: ScoredPrefixes) -> None:
    lines: list[str] = []
    calibrator = create()
    calibrator.support = FitSupport(report=lines.append)
    calibrator.fit(features, *labels(features))
    assert lines
    assert lines[-1].startswith("epoch 2 of 2, loss 0.")
    assert lines[-1].endswith(", 0 s left")
