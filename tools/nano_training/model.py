"""The base model: a Qwen2 language model with an additional head like that of Qwen2.5-Math-PRM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import Qwen2Config, Qwen2ForCausalLM


def nano_config(vocabulary: int, pad: int, end: int) -> Qwen2Config:
    """Return the configuration of the base model and the policies, with about 0.6M parameters."""
    return Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=128,
        num_hidden_layers=4,
        intermediate_size=256,
        num_attention_heads=4,
        num_key_value_heads=1,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        pad_token_id=pad,
        bos_token_id=None,
        eos_token_id=end,
        use_cache=True,
    )


class SolverAndJudge(Qwen2ForCausalLM):
    """One trunk with two heads: next tokens, and (bad, good) at markers.

    The layers of the reward head have the names of those in Qwen2.5-Math-PRM, so that a checkpoint needs no renaming.
    """

    hint_weight = 0.0
    """The weight of the judge loss at tokens with hints. Next tokens and markers each have weight 1."""
    balanced_hints = False
    """True if right and wrong hinted tokens have the same total weight, since few tokens are a first mistake."""

    def __init__(self, config: Qwen2Config) -> None:
        super().__init__(config)
        hidden = config.hidden_size
        self.score = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 2))
        self.post_init()

    def forward(
        self,
        input_ids: torch.Tensor,
        position_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        targets: torch.Tensor,
        scores: torch.Tensor,
        hints: torch.Tensor,
        **_: Any,
    ) -> dict[str, torch.Tensor]:
        """Compute the losses over a batch of trees.

        Parameters
        ----------
        input_ids, position_ids, targets, scores, hints : tensors, shape (B, L)
            The batch of `collate`. Targets of -100, and scores and hints of -1, are ignored.
        attention_mask : tensor, shape (B, 1, L, L)
            The additive mask.

        Returns
        -------
        dict
            `loss`: the sum of the mean loss over next tokens, that over markers, and the weighted one over hints.
        """
        hidden = self.model(
            input_ids=input_ids, position_ids=position_ids, attention_mask=attention_mask, use_cache=False
        ).last_hidden_state
        taught, marked = targets != -100, scores >= 0
        loss = hidden.sum() * 0
        if taught.any():
            loss = loss + functional.cross_entropy(self.lm_head(hidden[taught]).float(), targets[taught])
        if marked.any():
            loss = loss + self.judge_loss(hidden[marked], scores[marked])
        if self.hint_weight > 0 and (hints >= 0).any():
            groups = [hints == 1, hints == 0] if self.balanced_hints else [hints >= 0]
            losses = [self.judge_loss(hidden[group], hints[group]) for group in groups]
            loss = loss + self.hint_weight * torch.stack(losses).mean()
        return {"loss": loss}

    def judge_loss(self, hidden: torch.Tensor, good: torch.Tensor) -> torch.Tensor:
        """Return the cross-entropy of the reward head at hidden states (N, h), given the probabilities of good (N,)."""
        logits = self.score(hidden).float()
        return functional.cross_entropy(logits, torch.stack([1 - good, good], dim=-1))

    def deepened(self, layers: int, seed: int) -> SolverAndJudge:
        """Return a copy with more layers on top. At first the new layers add zero to the residual stream.

        The new layers can compare a token with the prediction of the lower layers at the token before it.
        """
        torch.manual_seed(seed)
        values = self.config.to_dict()
        values |= {"num_hidden_layers": self.config.num_hidden_layers + layers, "layer_types": None}
        deeper = SolverAndJudge(Qwen2Config(**values))
        deeper.load_state_dict(self.state_dict(), strict=False)
        for layer in deeper.model.layers[self.config.num_hidden_layers :]:
            nn.init.zeros_(layer.self_attn.o_proj.weight)
            nn.init.zeros_(layer.mlp.down_proj.weight)
        return deeper


def load_trained(folder: Path) -> SolverAndJudge:
    """Load the model of a stage, with both heads, in float32."""
    model: SolverAndJudge = SolverAndJudge.from_pretrained(folder, dtype=torch.float32)
    return model


def save_policy(model: SolverAndJudge, tokenizer: Any, folder: Path) -> None:
    """Write only the language model, in bfloat16, as a Qwen2ForCausalLM."""
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
