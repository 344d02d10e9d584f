"""Tiny untrained checkpoints in the published layouts of the PRMs: fields, names, tokenizers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

SPECIAL_TOKENS = ("<unk>", "<s>", "</s>")
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
CHARACTERS = (*map(chr, range(33, 127)), "▁", "к", "и")
MERGES = (("▁", "+"), ("▁", "-"), ("к", "и"), ("▁", "ки"), ("s", "t"), ("st", "e"), ("ste", "p"), ("▁", "a"))
VOCABULARY = (*SPECIAL_TOKENS, *BYTES, *CHARACTERS, *("".join(merge) for merge in MERGES))

WIDTH = 32
SIZES = {
    "hidden_size": WIDTH,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.2,
    "vocab_size": len(VOCABULARY),
}
COMMON = {
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "use_cache": True,
}
MISTRAL = {
    **COMMON,
    "model_type": "mistral",
    "architectures": ["MistralForCausalLM"],
    "max_position_embeddings": 32768,
    "sliding_window": 4096,
}
SHEPHERD = MISTRAL
REASONEVAL_7B = {
    **MISTRAL,
    "architectures": ["ReasonEval_7B"],
    "score_dimension": 3,
    "use_bias": False,
}
REASONEVAL_34B = {
    **COMMON,
    "model_type": "llama",
    "architectures": ["ReasonEval_34B"],
    "max_position_embeddings": 4096,
    "attention_bias": False,
    "rope_scaling": None,
    "score_dim": 3,
    "bias": False,
}
LLAMA_31 = {
    **COMMON,
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
    "rope_scaling": {
        "factor": 8.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
}
"""Configurations as published, but for the sizes."""

LLAMA_31_TOKENS = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
LLAMA_31_TEMPLATE = (
    "{{ bos_token }}<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
    "Today Date: 26 Jul 2024\n\n<|eot_id|>"
    "{% for message in messages %}<|start_header_id|>{{ message.role }}<|end_header_id|>\n\n"
    "{{ message.content | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
"""What Llama-3.1's chat template writes of plain turns, when it is told neither a date nor a system prompt."""


def write_tokenizer(folder: Path, pad_token: str | None, merges: tuple[tuple[str, str], ...] = MERGES) -> None:
    """Write a tokenizer in the layout of Llama and Mistral: byte fallback, a space in front, <s> before each text."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors

    vocabulary = (*SPECIAL_TOKENS, *BYTES, *CHARACTERS, *("".join(merge) for merge in merges))
    numbers = {token: number for number, token in enumerate(vocabulary)}
    tokenizer = Tokenizer(
        models.BPE(vocab=numbers, merges=list(merges), unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    settings: dict[str, Any] = {
        "tokenizer_class": "LlamaTokenizer",
        "legacy": True,
        "add_bos_token": True,
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "clean_up_tokenization_spaces": False,
    }
    if pad_token is not None:
        settings["pad_token"] = pad_token
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def write_checkpoint(
    folder: Path, config: Mapping[str, Any], head: Mapping[str, tuple[int, ...]] | None = None, seed: int = 5
) -> None:
    """Write random weights under the published names: a causal language model, or a trunk with another head.

    Parameters
    ----------
    folder : Path
        The folder of the checkpoint. It is created if it does not exist.
    config : mapping
        The content of config.json, without the sizes.
    head : mapping of str to shape, optional
        The tensors that replace the language-model head.
    seed : int
        The seed of the weights.
    """
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**SIZES, **config}))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
        weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        if head is not None or config.get("tie_word_embeddings"):
            del weights["lm_head.weight"]
        weights |= {name: torch.randn(shape) / 4 for name, shape in (head or {}).items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def saved_weights(folder: Path) -> dict[str, torch.Tensor]:
    """Read the weights of a checkpoint."""
    return load_file(folder / "model.safetensors")


def on_this_machine(checkpoint: str) -> bool:
    """Whether the hub's model has been downloaded."""
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(checkpoint, "config.json"), str)
