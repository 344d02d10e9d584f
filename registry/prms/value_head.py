"""The PRM `value-head`, a language model with a linear head: the states that it is fitted to, and its checkpoint."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prmcal.arrays import Floats, Floats32
from prmcal.errors import InvalidArgumentsError, PluginFailedError
from prmcal.registry.contracts.data import ScoringRequest
from prmcal.registry.messages import reading
from prmcal.registry.models.checkpoints import read_config, resolve_checkpoint
from prmcal.registry.models.files import LANGUAGE_HEAD, Head
from prmcal.registry.prms.classifiers import TokenClassifierPRM

if TYPE_CHECKING:
    import torch

_CONTEXT = 4096


@dataclass(eq=False)
class ValueHeadPRM(TokenClassifierPRM):
    """A causal language model with a linear head from a small file, in the format of `token-classifier`.

    The checkpoint that ``prmcal train-prm`` writes holds the whole language model. Its head alone, with the language
    model from where it is anyway, is the same PRM. Without a head, it has one that means nothing until it is written.
    """

    plugin_name = "value-head"

    head: str = ""
    """A file of safetensors with `score.weight` of shape (2, width) and `score.bias`, for the outputs bad and good. It
    may be the ``model.safetensors`` that ``prmcal train-prm`` writes. Other weights in it are ignored."""

    @classmethod
    def to_train(cls, checkpoint: str) -> ValueHeadPRM:
        """Return a language model without a head. `max_tokens` is its context, or 4096 if that is less."""
        config = read_config(resolve_checkpoint(checkpoint))
        most = (_CONTEXT, config.get("max_position_embeddings"), config.get("sliding_window"))
        return cls(checkpoint, max_tokens=min(each for each in most if each))

    def check_arguments(self) -> None:
        """Raise an error also if there is no file with a head."""
        super().check_arguments()
        self._read_head()

    def identity(self) -> dict[str, Any]:
        """Return the identity, with a hash of the head, wherever its file is."""
        known = super().identity()
        known["arguments"].pop("head", None)
        digest = hashlib.sha256(b"".join(each.tobytes() for each in self._read_head()))
        return {**known, "head": digest.hexdigest()[:16]}

    def head_weights(self) -> Head:
        """Return the head of a causal language model: the checkpoint has no other."""
        return LANGUAGE_HEAD

    def load_model(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """Load the trunk of the language model, and the head from its file, if there is one.

        Raises a PluginFailedError if the head is for states of another width.
        """
        import torch

        trunk, score = super().load_model()
        assert isinstance(score, torch.nn.Linear)
        if self.head:
            for own, read in zip((score.weight, score.bias), self._read_head(), strict=True):
                if own.shape != read.shape:
                    raise PluginFailedError(
                        f"The head in {self.head} has the shape {list(read.shape)}, and {self.checkpoint} needs "
                        f"{list(own.shape)}. It was fitted to another language model."
                    )
                own.data = torch.from_numpy(read)
        return trunk, score

    def _read_head(self) -> list[Floats32]:
        """Return the weight and the bias of the head in float32."""
        from safetensors import safe_open

        advice = "Give 'head' a file of safetensors with score.weight and score.bias, as `prmcal train-prm` writes."
        unread = reading(f"The head {self.head!r} cannot be read", advice, InvalidArgumentsError)
        with unread, safe_open(Path(self.head).expanduser(), "numpy") as file:
            return [file.get_tensor(f"score.{name}").astype(np.float32) for name in ("weight", "bias")]

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
