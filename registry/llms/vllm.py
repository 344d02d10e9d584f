"""The LLM `vllm`: a model in vLLM's offline engine, for models that are too slow with transformers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.data import Completion, FinishReason, Prefix, Sampling
from prmcal.registry.contracts.plugin import Count, ShareOrOne
from prmcal.registry.llms.prompts import ChatLLM, StopStrings, completion_seed, room_for_completion
from prmcal.registry.models.vllm import start_engine, stop_engine


@dataclass(eq=False)
class VLLM(ChatLLM):
    """A chat model in a vLLM engine, which samples many completions together and shares common beginnings.

    The prompt is written as in the LLM `transformers`: a chat template, applied to the system prompt, if there is one,
    and the question. The steps of a prefix begin the assistant's turn, each followed by a blank line.

    Notes
    -----
    Every completion has its own seed, a function of (seed, index of the prefix, index of the completion). So the first
    8 of 64 completions equal the 8 of n = 8. The rounding depends on the shape of the engine's batches, which can
    change a text if two tokens are almost equally likely.
    """

    version = "2"
    deterministic = False
    suits_machine = ("tensor_parallel", "gpu_memory", "gpu_memory_beside")
    packages, trajectories_per_shard = ("vllm",), 32

    context: Count | None = None
    """The maximum number of tokens of prompt and completion together. The default is the model's own. A smaller number
    needs less memory."""
    tensor_parallel: Count = 1
    """The number of GPUs that the model is spread over."""
    gpu_memory: ShareOrOne = 0.9
    """The share of each GPU's memory that the engine uses when it is alone, in (0, 1]."""
    gpu_memory_beside: ShareOrOne = 0.4
    """The share beside a PRM, as in a beam search, in (0, 1]. The engine is started again in between."""

    def share_gpus(self, beside: bool) -> None:
        """Stop the engine if its share of the memory must change; see :meth:`prmcal.LLM.share_gpus`."""
        share = self.gpu_memory_beside if beside else self.gpu_memory
        if share != self._share:
            self.close()
            self._share = share

    def close(self) -> None:
        """Stop the engine. The next use starts another engine."""
        stop_engine(self)

    @cached_property
    def _share(self) -> float:
        return self.gpu_memory

    def _sampled(self, requests: Sequence[tuple[Prefix, int, int, int]], sampling: Sampling) -> list[Completion]:
        if not requests:
            return []
        engine = self._engine
        prompts, settings = [], []
        for prefix, n, seed, index in requests:
            ids = self._prompt(prefix)
            for sample in range(n):
                prompts.append({"prompt_token_ids": list(ids)})
                settings.append(self._setting(prefix, len(ids), sampling, completion_seed(seed, index, sample)))
        outputs = engine.generate(prompts, settings, use_tqdm=False)
        stops = StopStrings(self._tokenizer, sampling.stop)
        return [_completion(output, stops) for output in outputs]

    def _setting(self, prefix: Prefix, prompt: int, sampling: Sampling, seed: int) -> Any:
        from vllm import SamplingParams

        context = int(self._engine.model_config.max_model_len)
        limit = room_for_completion(prefix, prompt, sampling, self.checkpoint, context)
        return SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=limit,
            stop=list(sampling.stop) or None,
            # The tokens are decoded below. The engine needs the text for stop strings only.
            detokenize=bool(sampling.stop),
            seed=seed,
        )

    @cached_property
    def _engine(self) -> Any:
        return start_engine(
            self.checkpoint, self.dtype, self.context, self.tensor_parallel, self._share, prefix_caching=True
        )


def _completion(output: Any, stops: StopStrings) -> Completion:
    (completion,) = output.outputs
    if completion.finish_reason not in ("stop", "length"):
        raise PluginFailedError(f"vLLM did not finish a completion (finish_reason {completion.finish_reason!r}).")
    tokens = list(completion.token_ids)
    # The stop reason is the stop string. It is None or the token's id at an end token.
    reason_without_length: FinishReason = "stop" if isinstance(completion.stop_reason, str) else "end"
    reason: FinishReason = "length" if completion.finish_reason == "length" else reason_without_length
    return Completion(stops.cut(tokens), len(tokens), reason, len(output.prompt_token_ids))
