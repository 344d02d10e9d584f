"""Tests with the real vLLM, which lives in an environment of its own: `make test-vllm`."""

from __future__ import annotations

from tests import forked
from tests.conftest import WITH_VLLM

if WITH_VLLM:
    from tests.vllm import forked_engines

    forked.IMPORTED.append(forked_engines.__name__)
    forked.fork_workers()
else:
    collect_ignore_glob = ["test_*.py"]
