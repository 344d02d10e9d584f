"""The PRM `qwen-vllm`: models of Qwen2.5-Math-PRM's format in a vLLM engine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.ranges import Count, ShareOrOne
from prmcal.registry.models.placement import SPREAD, Dtype
from prmcal.registry.models.vllm_engine import start_pooling_engine, stop_engine
from prmcal.registry.prms.packing import whole_sequences
from prmcal.registry.prms.qwen import QwenPRM

if TYPE_CHECKING:
    import torch

    from prmcal.registry.prms.packing import TokenizedTrajectory

__all__ = ["QwenVLLMPRM"]


class QwenVLLMPRM(QwenPRM):
    """The PRM `qwen` in a vLLM engine, for models that do not fit on one GPU.

    It reads the same texts as `qwen` and returns the same scores. The engine computes whole sequences. With ``markers:
    every`` there is one for each trajectory. With ``markers: last`` there is one for each prefix, since the marker of a
    prefix is not part of the next one. On one GPU with ``markers: last``, `qwen` is faster, since it shares the tokens
    of all prefixes.

    Parameters
    ----------
    checkpoint, max_tokens, markers, dtype, read_thoughts
        As in the PRM `qwen`.
    tensor_parallel, gpu_memory
        As in the LLM `vllm`.
    batch_tokens : int, default=4096
        The approximate number of tokens in a forward pass for a calibrator that reads hidden states or fine-tunes the
        PRM. The engine makes its own batches.

    Notes
    -----
    Calibrators that read hidden states or fine-tune the PRM load it with transformers, on the same GPUs. The engine
    stops before the model is loaded, and starts again for the next scores. So a GPU never holds both.
    """

    packages = ("vllm",)

    def __init__(
        self,
        checkpoint: str | None = None,
        max_tokens: Count | None = None,
        markers: Literal["last", "every"] = "last",
        dtype: Dtype = "auto",
        tensor_parallel: Count = 1,
        gpu_memory: ShareOrOne = 0.9,
        batch_tokens: Count = 4096,
        read_thoughts: bool = True,
    ) -> None:
        device = SPREAD if tensor_parallel > 1 else "auto"
        super().__init__(
            checkpoint, max_tokens, markers, dtype, device, batch_tokens, read_thoughts=read_thoughts
        )
        self.tensor_parallel = tensor_parallel
        self.gpu_memory = gpu_memory

    def identity(self) -> dict[str, Any]:
        """Return the identity, without the number of GPUs and their memory."""
        known = super().identity()
        left_out = ("tensor_parallel", "gpu_memory")
        known["arguments"] = {k: v for k, v in known["arguments"].items() if k not in left_out}
        return known

    def close(self) -> None:
        """Stop the engine. Another one starts at the next use."""
        super().close()
        stop_engine(self)

    def load_model(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """Stop the engine, and load the model with transformers."""
        stop_engine(self)
        return super().load_model()

    def _batches(self, trajectories: Sequence[TokenizedTrajectory]) -> list[list[list[int]]]:
        """One batch of all trajectories: the engine makes its own batches."""
        return [[list(range(len(trajectories)))]]

    def _forward(self, sequences: Sequence[Sequence[Sequence[int]]]) -> NDArray[np.float32]:
        """The log-odds at the end of every sequence, tree by tree, of shape (all sequences,)."""
        read = [tuple(ids) for of_tree in sequences for ids in of_tree]
        if not read:
            return np.empty(0, dtype=np.float32)
        engine = self._engine
        import torch
        from vllm import PoolingParams

        self._check_context(max(map(len, read)))
        whole = whole_sequences(read)
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
                f"A prefix has {longest} tokens, but the context of {self.checkpoint} is {context} tokens. Set "
                f"'max_tokens' to {context} or less, so that longer prefixes are flagged."
            )

    @cached_property
    def _engine(self) -> Any:
        super().close()  # Releases the model on transformers.
        return start_pooling_engine(self.checkpoint, self.dtype, self.tensor_parallel, self.gpu_memory)
