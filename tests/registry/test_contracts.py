"""What plugins say about themselves, so that the harness knows none of them by name."""

from __future__ import annotations

import doctest
from pathlib import Path
from types import ModuleType

import pytest

from prmcal.errors import PluginFailedError
from prmcal.registry.contracts import calibrator as features
from prmcal.registry.contracts import data
from prmcal.registry.contracts.strategy import SearchStrategy
from prmcal.registry.plugins import calibrators, llms, load_plugin_file, prms, strategies
from tests.conftest import PLUGINS

load_plugin_file(PLUGINS / "synthetic.py")


def test_a_prm_without_hidden_states_says_so() -> None:
    with pytest.raises(PluginFailedError, match="does not define 'hidden_states'"):
        prms.create("synthetic-prm").hidden_states([])


def test_a_calibrator_that_does_not_change_the_prm_exports_nothing(tmp_path: Path) -> None:
    with pytest.raises(PluginFailedError, match="does not change the PRM"):
        calibrators.create("isotonic").export(prms.create("synthetic-prm"), tmp_path)


def test_training_passes_are_known_before_the_fit(tmp_path: Path) -> None:
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        (tmp_path / name).touch()
    assert calibrators.create("isotonic").training_passes == 0
    assert calibrators.create("quantile-lora", epochs=5).training_passes == 5
    assert calibrators.create("quantile-adapter", adapter=str(tmp_path)).training_passes == 0
    wrapped = {"plugin": "quantile-lora", "arguments": {"epochs": 2}}
    assert calibrators.create("conformal", calibrator=wrapped).training_passes == 2
    assert not calibrators.create("conformal", calibrator=wrapped).trains_apart
    wrapped = {"plugin": "quantile-lora", "arguments": {"batches": "prefixes"}}
    assert calibrators.create("conformal", calibrator=wrapped).trains_apart


def test_every_checkpoint_that_is_read_is_known() -> None:
    address = "http://localhost:8000/v1"
    assert prms.create("synthetic-prm").checkpoints == ()
    assert prms.create("qwen", checkpoint="nano:prm").checkpoints == ("nano:prm",)
    assert llms.create("transformers", checkpoint="nano:weak").checkpoints == ("nano:weak",)
    served = llms.create("openai", base_url=address, model="a", tokenizer="nano:weak")
    assert (served.checkpoint, served.checkpoints) == ("", ("nano:weak",))
    assert llms.create("openai", base_url=address, model="a", chat_template="qwen-2.5").checkpoints == ()


def test_a_search_is_compared_with_one_of_fixed_width_and_the_same_settings() -> None:
    settings = {
        "width": 3,
        "expansions": 2,
        "every": 2,
        "most_steps": 9,
        "step_tokens": 20,
        "context_tokens": 90,
        "first": "adaptive",
        "rank": "calibrated",
        "finished": "kept",
    }
    for name in ("beam search", "beam search + IAS-of-K", "beam search + IAS-of-M"):
        search = strategies.create(name, **settings)
        assert isinstance(search, SearchStrategy)
        assert search.settings == settings
        fixed = strategies.create(search.baseline, **search.settings)
        assert isinstance(fixed, SearchStrategy)
        assert not fixed.targeted and "rewards" not in fixed.reads
        assert fixed.once_for == "calibrator"
        assert strategies.create(search.baseline, width=3).once_for == "prm"


@pytest.mark.parametrize("module", [data, features])
def test_the_examples_in_the_docstrings_are_right(module: ModuleType) -> None:
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0
