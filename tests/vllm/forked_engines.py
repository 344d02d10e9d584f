"""What processes of vLLM fork from: importing vLLM takes longer than most engines need to start and answer."""

from __future__ import annotations

from multiprocessing import context
from typing import Any

import setproctitle
from vllm.entrypoints.launchers.api_server import entry  # noqa: F401  # Servers need it.
from vllm.model_executor.models import registry

from tests import forked

setproctitle.getproctitle()  # It begins before a fork replaces the environment, by which it finds the title.
context._concrete_contexts["spawn"] = forked._CONTEXT  # type: ignore[attr-defined]


def _inspected(inspect: Any) -> Any:
    return inspect()


registry._run_in_subprocess = _inspected  # It has a process of its own for the sake of GPUs.
