"""A PRM whose layers are spread over several GPUs: the inputs of every operation are on the same GPU.

No GPUs are needed. The models are real, and so are the hooks that move tensors between devices. The tensors are torch's
fake tensors, which have shapes and devices but no numbers. An operation on tensors of two devices raises an error, as
on GPUs.

A registered kind of device stays for the lifetime of a process. So `test_several_gpus.py` runs these tests in a
separate process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import dispatch_model
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from prmcal import Prefix, ScoringRequest
from prmcal.registry.calibrators.lora.fitting import (
    batch_passes,
    predict_log_odds,
    row_loss,
    token_ids,
)
from prmcal.registry.calibrators.lora.model import adapted, lora_config, quantile_model
from prmcal.registry.calibrators.lora.training import TreeTrainer
from prmcal.registry.models import pretrained
from prmcal.registry.models.checkpoints import SPREAD
from prmcal.registry.plugins import prms
from prmcal.registry.prms.transformers import TransformersPRM

QUESTION = "Start with 37 and keep two digits. a) add 15, b) subtract 8."
STEPS = ("a) 37+15=52", "b) 52-8=44")
PREFIXES = [Prefix(QUESTION, STEPS[:count]) for count in range(3)]
FORMATS = [("qwen", "nano:prm"), ("shepherd", "nano:shepherd"), ("reasoneval", "nano:reasoneval")]
ON_FIRST = re.compile(r"embed_tokens|rotary_emb|(?<!score\.)layers\.[0-2]\.")

Load = Callable[[str, str], TransformersPRM]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Load a PRM spread over several devices, which are all the CPU at first."""

    def dispatch(model: nn.Module, _checkpoint: str) -> None:
        leaves = [name for name, part in model.named_modules() if not any(part.children())]
        whole = {re.sub(r"(layers\.\d+)\..*", r"\1", name) for name in leaves}
        dispatch_model(model, dict.fromkeys(whole, "cpu"), main_device="cpu", force_hooks=True)

    # This machine has one device, so the model has to be spread after it is loaded.
    monkeypatch.setattr(pretrained, "_check_spread", dispatch)

    def loaded(name: str, checkpoint: str) -> TransformersPRM:
        prm = prms.create(name, checkpoint=checkpoint, device=SPREAD)
        assert isinstance(prm, TransformersPRM)
        prm.modules  # noqa: B018 - loads it
        return prm

    return loaded


@pytest.fixture(scope="module")
def gpus() -> tuple[torch.device, torch.device]:
    """Two devices of a kind that torch knows by name only."""
    _setup_privateuseone_for_python_backend("gpu")
    return torch.device("gpu:0"), torch.device("gpu:1")


@pytest.fixture
def spread(
    gpus: tuple[torch.device, torch.device], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[nn.Module], None]]:
    """Move the embedding and the first layers to one GPU, and the rest to the other."""
    monkeypatch.setattr(FakeTensor, "numpy", lambda tensor: np.zeros(tensor.shape), raising=False)

    def take(module: nn.Module) -> None:
        for name, part in module.named_modules():
            device = gpus[0 if ON_FIRST.search(f"{name}.") else 1]
            for key, weight in part._parameters.items():
                if weight is not None:
                    fake = torch.empty(weight.shape, dtype=weight.dtype, device=device)
                    part._parameters[key] = nn.Parameter(fake, weight.requires_grad)
            for key, buffer in part._buffers.items():
                if buffer is not None:
                    part._buffers[key] = torch.empty(buffer.shape, dtype=buffer.dtype, device=device)
            if hasattr(part, "_hf_hook"):
                part._hf_hook.execution_device = device

    with FakeTensorMode(allow_non_fake_inputs=True):
        yield take


@pytest.mark.parametrize(("name", "checkpoint"), FORMATS)
def test_scores_and_hidden_states(name: str, checkpoint: str, load: Load, request: pytest.FixtureRequest) -> None:
    prm = load(name, checkpoint)
    trunk, head = prm.modules
    spread = request.getfixturevalue("spread")
    spread(trunk)
    spread(head)
    asked = [ScoringRequest(QUESTION, (STEPS, STEPS[:1]))]
    assert [scores.logit.shape for scores in prm.score_batch(asked)[0]] == [(3,), (2,)]
    assert prm.hidden_states(asked)[0].logit.shape == (5,)


@pytest.mark.parametrize(("name", "checkpoint"), FORMATS)
def test_fine_tuning(name: str, checkpoint: str, load: Load, request: pytest.FixtureRequest) -> None:
    prm = load(name, checkpoint)
    base = quantile_model(prm, 1)
    model = adapted(base, lora_config(base, 2, 32.0, 0.1, "all", ["q_proj", "v_proj"], "lora"))
    rows, rates = np.arange(len(PREFIXES)), np.linspace(0, 1, len(PREFIXES))
    sequences = token_ids(prm, PREFIXES)
    request.getfixturevalue("spread")(model)
    (part,) = batch_passes(rows, PREFIXES, sequences, rates, prm)
    trainer: Any = SimpleNamespace(row_loss=row_loss("mse", ()))
    assert TreeTrainer.compute_loss(trainer, model.train(), part).requires_grad
    trained = {weight.device.index for weight in model.parameters() if weight.requires_grad}
    assert trained == {0, 1}
    calibrated = predict_log_odds(model.eval(), prm, PREFIXES, 1)
    assert calibrated.shape == (3, 1)
