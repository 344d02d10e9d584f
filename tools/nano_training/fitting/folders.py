"""Writing and reading model folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tools.nano_training.fitting.model import SolverAndJudge


def save_policy(model: SolverAndJudge, tokenizer: Any, folder: Path) -> None:
    """Write only the language model, in bfloat16, as a Qwen2ForCausalLM."""
    from transformers import Qwen2ForCausalLM

    policy: Any = Qwen2ForCausalLM(model.config)
    policy.config.use_cache = True  # The trainer turns it off.
    weights = {name: value for name, value in model.state_dict().items() if not name.startswith("score.")}
    policy.load_state_dict(weights)
    policy.to(torch.bfloat16)
    policy.generation_config.update(
        use_cache=True,
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        max_new_tokens=256,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    policy.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)
    tokenizer.save_pretrained(folder)


def save_reward_model(model: SolverAndJudge, tokenizer: Any, folder: Path) -> None:
    """Write the trunk and the reward head, in bfloat16, with the keys and the configuration of Qwen2.5-Math-PRM."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {
        name: value.to(torch.bfloat16).contiguous()
        for name, value in model.state_dict().items()
        if name.startswith(("model.", "score."))
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    model.config.save_pretrained(folder)
    path = folder / "config.json"
    configuration = json.loads(path.read_text())
    configuration |= {"architectures": ["Qwen2ForProcessRewardModel"], "num_labels": 2, "dtype": "float32"}
    configuration["use_cache"] = True
    for derived in ("id2label", "label2id"):
        configuration.pop(derived, None)
    path.write_text(json.dumps(configuration, indent=2, sort_keys=True) + "\n")
    tokenizer.save_pretrained(folder)


def load_trained(folder: Path) -> SolverAndJudge:
    """Load the model of a stage, with both heads, in float32."""
    if not folder.is_dir():
        raise FileNotFoundError(
            f"There is no model in {folder}. Train it with 'python -m tools.nano_training'."
        )
    model: SolverAndJudge = SolverAndJudge.from_pretrained(folder, dtype=torch.float32)
    return model
