"""The holder of models: what it tells an LLM about the GPUs."""

from __future__ import annotations

import pytest

from prmcal.harness.jobs.context import Models
from prmcal.harness.jobs.parameters import PluginReference
from prmcal.registry.plugins import llms, load_plugin_file
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
