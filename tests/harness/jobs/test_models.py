"""The holder of models: what it tells an LLM about the GPUs, and models that cannot be closed."""

from __future__ import annotations

import threading

import pytest

from prmcal.harness.jobs.context import Models
from prmcal.harness.jobs.parameters import PluginReference
from prmcal.registry.plugins import llms, load_plugin_file, prms
from tests.conftest import PLUGINS

load_plugin_file(PLUGINS / "synthetic.py")
LLM = PluginReference("mine", "synthetic-llm", {})
PRM = PluginReference("judge", "synthetic-prm", {})


def test_an_llm_hears_whether_a_prm_is_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[bool] = []
    monkeypatch.setattr(llms.get("synthetic-llm"), "share_gpus", lambda self, beside: heard.append(beside))
    models = Models()
    models.llm(LLM)
    models.prm(PRM, beside=True)  # Before the PRM takes its memory.
    models.llm(LLM, beside=True)
    models.llm(LLM)
    models.prm(PRM)  # The LLM is gone.
    assert heard == [False, True, True, False]


@pytest.mark.parametrize("how", ["raises", "hangs", "closes"])
def test_a_broken_model_is_let_go_even_if_it_cannot_be_closed(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = threading.Event()

    def close(self: object) -> None:
        if how == "raises":
            raise RuntimeError("the engine is gone")
        if how == "hangs":
            end.wait()

    monkeypatch.setattr(prms.get("synthetic-prm"), "close", close)
    models = Models()
    before = models.prm(PRM)
    assert models.drop(seconds=0.05 if how == "hangs" else 60) == (how == "closes")
    end.set()
    assert models.prm(PRM) is not before
