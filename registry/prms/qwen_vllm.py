"""The PRM `qwen-vllm`: models in Qwen2.5-Math-PRM's format, scored by an engine of vLLM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from registry.errors import PluginFailedError
from registry.prms.qwen import QwenPRM

__all__ = ["QwenVLLMPRM"]

_BATCH_TOKENS = 2**18  # The engine makes batches of its own.


class QwenVLLMPRM(QwenPRM):
    """The PRM `qwen` in an engine of vLLM: for models that one GPU does not hold.

    It reads what `qwen` reads, and gives the same scores. The engine computes whole sequences: with ``markers: every``
    that is one for each trajectory, with ``last`` one for each prefix, since a marker that ends a prefix is not in the
    next one. On one GPU, `qwen` computes the prefixes of a trajectory once and is the faster of the two with ``last``.

    Parameters
    ----------
    checkpoint, max_tokens, markers, dtype
        As in the PRM `qwen`.
    tensor_parallel, gpu_memory
        As in the LLM `vllm`.

    Notes
    -----
    Calibrators that read hidden states or fine-tune the PRM load it by transformers, beside the engine.
    """

    packages = ("vllm",)

    def __init__(
        self,
        checkpoint: str | None = None,
        max_tokens: int | None = None,
        markers: Literal["last", "every"] = "last",
        dtype: str = "auto",
        tensor_parallel: int = 1,
        gpu_memory: float = 0.9,
    ) -> None:
        super().__init__(checkpoint, max_tokens, markers, dtype, batch_tokens=_BATCH_TOKENS)
        self.tensor_parallel = tensor_parallel
        self.gpu_memory = gpu_memory

    def check_arguments(self) -> None:
        """Refuse also what no engine can be started with."""
        from registry.vllm_engine import check_engine_arguments

        super().check_arguments()
        check_engine_arguments(self.dtype, None, self.tensor_parallel, self.gpu_memory)

    def identity(self) -> dict[str, Any]:
        """Not over how many GPUs it is spread."""
        known = super().identity()
        left_out = ("tensor_parallel", "gpu_memory")
        known["arguments"] = {k: v for k, v in known["arguments"].items() if k not in left_out}
        return known

    def close(self) -> None:
        """Stop the engine; another is started when it is needed again."""
        from registry.vllm_engine import stop_engine

        super().close()
        engine = self.__dict__.pop("_engine", None)
        if engine is not None:
            stop_engine(engine)

    def _forward(self, sequences: Sequence[Sequence[Sequence[int]]]) -> NDArray[np.float32]:
        """Log-odds at the end of every sequence, tree by tree, of shape (all sequences,)."""
        read = [tuple(ids) for of_tree in sequences for ids in of_tree]
        if not read:
            return np.empty(0, dtype=np.float32)
        engine = self._engine
        import torch
        from vllm import PoolingParams

        self._check_context(max(map(len, read)))
        whole = _whole_sequences(read)
        asked = list(dict.fromkeys(whole.values()))
        outputs = engine.encode(
            [{"prompt_token_ids": list(ids)} for ids in asked],
            pooling_task="token_classify",
            pooling_params=PoolingParams(use_activation=False),
            use_tqdm=False,
        )
        heads = {ids: output.outputs.data for ids, output in zip(asked, outputs, strict=True)}
        ends = torch.stack([heads[whole[ids]][len(ids) - 1] for ids in read]).float()
        return np.asarray(self.log_odds(ends).cpu().numpy(), dtype=np.float32)

    def _check_context(self, longest: int) -> None:
        context = int(self._engine.model_config.max_model_len)
        if longest > context:
            raise PluginFailedError(
                f"A prefix has {longest} tokens, and {self.checkpoint} reads {context}. Set 'max_tokens' to {context} "
                "or less: longer prefixes are then flagged."
            )

    @cached_property
    def _engine(self) -> Any:
        from registry.vllm_engine import start_pooling_engine

        return start_pooling_engine(self.checkpoint, self.dtype, self.tensor_parallel, self.gpu_memory)


def _whole_sequences(read: Sequence[tuple[int, ...]]) -> Mapping[tuple[int, ...], tuple[int, ...]]:
    """For each sequence one that begins with it and that no other begins with: where its end is computed too."""
    ordered = sorted(set(read), reverse=True)
    whole = {ordered[0]: ordered[0]}
    # In this order whatever begins with a sequence stands right before it.
    for longer, shorter in pairwise(ordered):
        whole[shorter] = whole[longer] if longer[: len(shorter)] == shorter else shorter
    return whole
