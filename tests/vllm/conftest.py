"""Tests with the real vLLM, which lives in an environment of its own: `make test-vllm`."""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("vllm") is None:
    collect_ignore_glob = ["test_*.py"]
