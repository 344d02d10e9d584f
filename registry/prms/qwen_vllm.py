"""The PRM `qwen-vllm`: models in Qwen2.5-Math-PRM's format, scored by an engine of vLLM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from prmcal.errors import PluginFailedError
from prmcal.registry.models.checkpoints import SPREAD
from prmcal.registry.models.vllm_engine import check_engine_arguments, start_pooling_engine, stop_engine
from prmcal.registry.prms.qwen import QwenPRM

if TYPE_CHECKING:
    import torch

    from prmcal.registry.prms.transformers import Trajectory

__all__ = ["QwenVLLMPRM"]


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
    batch_tokens : int, default=4096
        Tokens of one forward pass, about, of a calibrator that reads hidden states or fine-tunes the PRM. The engine
        makes batches of its own.

    Notes
    -----
    Calibrators that read hidden states or fine-tune the PRM load it by transformers, over the same GPUs. No GPU holds
    both at a time: the engine stops when the other is loaded, and starts again when it is asked for scores.
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
        batch_tokens: int = 4096,
    ) -> None:
        device = SPREAD if tensor_parallel > 1 else "auto"
        super().__init__(checkpoint, max_tokens, markers, dtype, device, batch_tokens)
        self.tensor_parallel = tensor_parallel
        self.gpu_memory = gpu_memory

    def check_arguments(self) -> None:
        """Refuse also what no engine can be started with."""
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
        super().close()
        stop_engine(self)

    def load_model(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """The model on transformers, in the place of the engine."""
        stop_engine(self)
        return super().load_model()

    def _batches(self, trajectories: Sequence[Trajectory]) -> Iterator[list[list[int]]]:
        """All in one: the engine makes batches of its own."""
        yield [list(range(len(trajectories)))]

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
        super().close()  # Drops the model on transformers.
        return start_pooling_engine(self.checkpoint, self.dtype, self.tensor_parallel, self.gpu_memory)


def _whole_sequences(read: Sequence[tuple[int, ...]]) -> Mapping[tuple[int, ...], tuple[int, ...]]:
    """For each sequence one that begins with it and that no other begins with: where its end is computed too."""
    ordered = sorted(set(read), reverse=True)
    whole = {ordered[0]: ordered[0]}
    # In this order whatever begins with a sequence stands right before it.
    for longer, shorter in pairwise(ordered):
        whole[shorter] = whole[longer] if longer[: len(shorter)] == shorter else shorter
    return whole
