"""A value head for a language model: the states that it is fitted to, and the checkpoint with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from prmcal.arrays import Floats, Floats32
from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.data import ScoringRequest
from prmcal.registry.models.checkpoints import read_config, resolve_checkpoint
from prmcal.registry.prms.classifiers import TokenClassifierPRM

_CONTEXT = 4096


class ValueHeadPRM(TokenClassifierPRM):
    """A causal language model in the format of `token-classifier`, whose head means nothing until it is written.

    `max_tokens` is the model's context, or 4096 if that is less.
    """

    plugin_name = "token-classifier"

    def __post_init__(self) -> None:
        super().__post_init__()
        config = read_config(resolve_checkpoint(self.checkpoint))
        most = (_CONTEXT, config.get("max_position_embeddings"), config.get("sliding_window"))
        self.max_tokens = min(each for each in most if each)

    def load_classifier(self, auto: Any) -> Any:
        """Load the trunk of the language model into a token classifier.

        Raises a PluginFailedError if it cannot be loaded, or transformers has no token classifier of its type.
        """
        import torch
        from transformers import AutoModel

        from prmcal.registry.models.pretrained import load_pretrained

        trunk: Any = load_pretrained(AutoModel, self.checkpoint, self.dtype, self.device)
        trunk.config.num_labels = 2
        try:
            with torch.device("meta"):
                model = auto.from_config(trunk.config)
        except ValueError as error:
            kind = trunk.config.model_type
            raise PluginFailedError(f"transformers has no token classifier of the type '{kind}'.") from error
        setattr(model, model.base_model_prefix, trunk)
        if hasattr(model, "score"):
            model.score = torch.nn.Linear(trunk.config.hidden_size, 2)
        self._classifier = model
        return model

    def states(self, request: ScoringRequest) -> list[Floats32]:
        """Return the states at the ends of the prefixes of each trajectory, of shape (T + 1, width).

        That of a prefix which is longer than `max_tokens` is NaN.
        """
        (found,) = self.hidden_states_together([request])
        ends, read = iter(found.leaves), []
        for steps in request.trajectories:
            states = np.full((len(steps) + 1, found.states.shape[1]), np.nan, dtype=np.float32)
            for place, prefix in enumerate(request.prefixes(steps)):
                if self.prefix_ids(request.question, prefix) is not None:
                    states[place] = found.states[next(ends)]
            read.append(states)
        return read

    def write(self, weight: Floats, bias: float, folder: Path) -> str:
        """Write a checkpoint whose log-odds are ``states @ weight + bias``, for a weight of shape (width,).

        The trunk has the type in which the language model was saved. Returns the architecture that vLLM serves it as.
        """
        import torch

        trunk, head = self.modules
        assert isinstance(head, torch.nn.Linear)
        head.weight.data[:] = torch.from_numpy(np.stack([0 * weight, weight]))
        head.bias.data[:] = torch.tensor([0.0, bias])
        saved = read_config(resolve_checkpoint(self.checkpoint))
        trunk.to(getattr(torch, str(saved.get("dtype") or saved.get("torch_dtype")), torch.float32))
        self._classifier.save_pretrained(folder)
        # safetensors lets only the owner read its files. The other files have the mode that the user's umask gives.
        for file in folder.glob("*.safetensors"):
            file.chmod((folder / "config.json").stat().st_mode)
        self.tokenizer.save_pretrained(folder)
        self.close()
        return type(self._classifier).__name__.replace("Token", "Sequence")
