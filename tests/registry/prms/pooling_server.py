"""A shipped PRM on transformers, which answers as vLLM's ``/pooling`` does."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

from prmcal.registry.plugins import prms
from tests.registry.llms.completions_server import serving

__all__ = ["Judge", "reply", "serving_pooling"]

serving_pooling = partial(serving, base="", path="/pooling")
"""Serve where vLLM does inside the block."""


def reply(rows: list[list[float]], tokens: int = 0) -> dict[str, Any]:
    return {
        "id": "pool-1",
        "object": "list",
        "created": 0,
        "model": "judge",
        "data": [{"index": 0, "object": "pooling", "data": rows}],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0},
    }


class Judge:
    """Returns the outputs at every marker, or with `pooling` ALL at every token."""

    def __init__(self, checkpoint: str, pooling: str = "STEP") -> None:
        self.prm: Any = prms.create("qwen", checkpoint=checkpoint, dtype="float32", device="cpu")
        self.pooling = pooling
        self.lock = threading.Lock()

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        import torch

        assert request["task"] == "token_classify"
        with self.lock, torch.inference_mode():
            trunk, head = self.prm.modules
            ids = torch.tensor([request["input"]])
            outputs = head(trunk(input_ids=ids).last_hidden_state[0])
            if request.get("use_activation", True):
                outputs = outputs.softmax(dim=-1)
            if self.pooling == "STEP":
                outputs = outputs[ids[0] == self.prm.tokenizer.convert_tokens_to_ids(self.prm.marker)]
        return reply(outputs.tolist(), len(request["input"]))
