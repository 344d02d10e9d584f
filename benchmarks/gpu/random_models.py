"""Models with the shapes of published ones and random weights, and texts for them. Nothing is downloaded."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import torch
from transformers import LlamaConfig, MistralConfig, Qwen2Config, Qwen2ForCausalLM

from benchmarks.scoring import DOCS, trained_tokenizer
from prmcal.registry.contracts.data import Prefix, ScoringRequest
from prmcal.registry.llms.transformers import TransformersLLM
from prmcal.registry.models.architectures import LlamaReasonEval, MistralReasonEval, QwenRewardModel
from prmcal.registry.models.pretrained import unload
from prmcal.registry.prms.transformers import TransformersPRM

QUESTION_WORDS, STEP_WORDS = 43, 16
"""A random word of the documentation has about 2.8 tokens."""
_QWEN = {"vocab_size": 152_064, "max_position_embeddings": 4096, "num_hidden_layers": 28, "num_key_value_heads": 4}
SHAPES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "Qwen2 1.5B": (
        QwenRewardModel,
        Qwen2Config,
        _QWEN | {"hidden_size": 1536, "intermediate_size": 8960, "num_attention_heads": 12, "num_key_value_heads": 2},
    ),
    "Qwen2 7B": (
        QwenRewardModel,
        Qwen2Config,
        _QWEN | {"hidden_size": 3584, "intermediate_size": 18_944, "num_attention_heads": 28},
    ),
    # The other defaults of this configuration are those of the 7B model.
    "Mistral 7B": (MistralReasonEval, MistralConfig, {"max_position_embeddings": 4096, "sliding_window": None}),
    "Llama 8B": (
        LlamaReasonEval,
        LlamaConfig,
        {
            "vocab_size": 128_256,
            "hidden_size": 4096,
            "intermediate_size": 14_336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "max_position_embeddings": 4096,
        },
    ),
}
_TINY = {
    "vocab_size": 500,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def shaped(name: str, tiny: bool) -> tuple[Any, Any]:
    """Return the class and the configuration of a shape; of the same architecture with tiny numbers on request."""
    model_class, config_class, numbers = SHAPES[name]
    return model_class, config_class(**numbers | (_TINY if tiny else {}))


@contextmanager
def _default_type(dtype: torch.dtype) -> Any:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class RandomPRM(TransformersPRM):
    """A PRM of some shape, with a BPE of the words of the documentation and a marker behind every prefix."""

    plugin_name = "random"
    marker = " <marker>"

    def __init__(self, shape: str, tiny: bool, batch_tokens: int = 4096, tree_tokens: int = 512) -> None:
        super().__init__(checkpoint="nano:prm", batch_tokens=batch_tokens, tree_tokens=tree_tokens)
        self.shape, self.tiny = shape, tiny

    def load_model(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """Return a new model with random weights, made on the device."""
        model_class, config = shaped(self.shape, self.tiny)
        with _default_type(torch.float32 if self.tiny else torch.bfloat16), torch.device(device(self.tiny)):
            model = model_class(config)
        return model.model, model.score if hasattr(model, "score") else model.score_head

    def prefix_text(self, question: str, steps: Sequence[str]) -> str:
        """Return the words of the question and the steps."""
        return " ".join([question, *steps])

    def log_odds(self, head: torch.Tensor) -> torch.Tensor:
        """Return the difference of two outputs."""
        return head[..., 1] - head[..., 0]

    @cached_property
    def tokenizer(self) -> Any:
        """The BPE, whose ids are below the number of rows of every embedding."""
        return trained_tokenizer(self.tiny)[1]

    @property
    def parameters(self) -> int:
        """The number of weights of the trunk that multiply something for each token: all but the embedding."""
        trunk = self.modules[0]
        embedding: Any = trunk.embed_tokens
        return sum(weights.numel() for weights in trunk.parameters()) - int(embedding.weight.numel())


class RandomLLM(TransformersLLM):
    """An LLM with the shape of a Qwen2 model, which never ends a text by itself."""

    def __init__(self, shape: str, tiny: bool, batch_tokens: int = 131_072) -> None:
        super().__init__(checkpoint="nano:middle", batch_tokens=batch_tokens)
        self.shape, self.tiny = shape, tiny

    @cached_property
    def _model(self) -> Any:
        with _default_type(torch.float32 if self.tiny else torch.bfloat16), torch.device(device(self.tiny)):
            return Qwen2ForCausalLM(shaped(self.shape, self.tiny)[1]).eval()

    @cached_property
    def _end_ids(self) -> frozenset[int]:
        return frozenset()

    @property
    def parameters(self) -> int:
        """The number of weights that multiply something for each token: all but the embedding."""
        weight_count = sum(weights.numel() for weights in self._model.parameters())
        return int(weight_count - self._model.model.embed_tokens.weight.numel())

    def close(self) -> None:
        """Release the model's memory."""
        unload(self, "_model")


def device(tiny: bool) -> str:
    """Return where models are: on the GPU, or on the CPU if they are tiny."""
    return "cpu" if tiny else "cuda"


def requests(questions: int, trajectories: int, steps: int, seed: int = 0) -> list[ScoringRequest]:
    """Return trajectories of random words of the documentation, each with so many steps, for some questions."""
    generator = random.Random(seed)
    vocabulary = sorted({word for page in DOCS.rglob("*.md") for word in page.read_text(encoding="utf-8").split()})

    def words(count: int) -> str:
        return " ".join(generator.choices(vocabulary, k=count))

    return [
        ScoringRequest(
            words(QUESTION_WORDS), tuple(tuple(words(STEP_WORDS) for _ in range(steps)) for _ in range(trajectories))
        )
        for _ in range(questions)
    ]


def prefixes(requests: Sequence[ScoringRequest]) -> list[Prefix]:
    """Return all prefixes of all trajectories."""
    return [
        Prefix(request.question, steps)
        for request in requests
        for trajectory in request.trajectories
        for steps in request.prefixes(trajectory)
    ]
