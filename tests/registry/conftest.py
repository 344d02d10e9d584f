"""Tiny untrained models in the real formats, for what does not depend on what a model has learnt."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

QWEN2: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
}


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer with the chat format and the marker of Qwen2.5-Math-PRM."""
    from tools.nano_training.tokenizer import build_tokenizer

    folder = tmp_path_factory.mktemp("tokenizer")
    build_tokenizer(folder)
    return folder


@pytest.fixture(scope="session")
def policy_folder(one_thread: None, tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A causal language model in the format of Qwen2."""
    import torch
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

    folder = tmp_path_factory.mktemp("policy")
    shutil.copytree(tokenizer_folder, folder, dirs_exist_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        config = Qwen2Config(
            **QWEN2, vocab_size=len(tokenizer), eos_token_id=tokenizer.eos_token_id, initializer_range=0.2
        )
        Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def reward_folder(one_thread: None, tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reward model with the published names of its weights, the unused language-model head among them."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

    folder = tmp_path_factory.mktemp("reward")
    shutil.copytree(tokenizer_folder, folder, dirs_exist_ok=True)
    with torch.random.fork_rng():
        torch.manual_seed(2)
        vocabulary = len(AutoTokenizer.from_pretrained(folder))
        config = Qwen2Config(**QWEN2, vocab_size=vocabulary, initializer_range=0.2)
        weights = dict(Qwen2ForCausalLM(config).state_dict())
        size = config.hidden_size
        weights |= {"score.0.weight": torch.randn(size, size) / 4, "score.0.bias": torch.randn(size)}
        weights |= {"score.2.weight": torch.randn(2, size) / 4, "score.2.bias": torch.randn(2)}
    config.architectures = ["Qwen2ForProcessRewardModel"]
    config.save_pretrained(folder)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.fixture(scope="session")
def one_thread() -> Iterator[None]:
    """Leave the other cores alone: two threads on a busy machine are slower than one."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
