"""The base of PRMs on transformers models: one pass over the prefixes of many trajectories."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from prmcal.arrays import Floats32, Ints
from prmcal.errors import FaultyPluginError, PluginFailedError, PrmcalError
from prmcal.registry.contracts.data import HiddenStates, ScoringRequest
from prmcal.registry.contracts.plugin import Count, FromClass, from_class
from prmcal.registry.models.checkpoints import (
    Dtype,
    SpreadableDevice,
    check_checkpoint,
    checkpoint_identity,
    read_config,
    resolve_checkpoint,
)
from prmcal.registry.models.files import Head, checkpoint_problems
from prmcal.registry.models.tokenizing import Tokenization
from prmcal.registry.prms import token_tree
from prmcal.registry.prms.tokens import TokenPRM

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

_STATE_TOKENS = 4096
"""The largest number of tokens in a tree whose hidden states are read."""


def _halves(sequences: Any) -> list[Any]:
    middle = len(sequences) // 2
    return [sequences[:middle], sequences[middle:]] if middle else []


@dataclass(eq=False)
class TransformersPRM(TokenPRM):
    """A PRM that reads the log-odds of success at a marker behind a prefix.

    A subclass sets the class attributes `checkpoint`, `marker` and `max_tokens`, and defines `prefix_text` and
    `log_odds`. If the model is not a token classifier of transformers, it also defines `load_model`.

    Attributes
    ----------
    marker : str
        The text behind a prefix. The score is read at its last token. It may be empty if the class defines `tokenize`.

    Notes
    -----
    All prefixes of all trajectories are scored in few passes: see :mod:`prmcal.registry.prms.token_tree`. In float32,
    the scores equal the scores of separate passes and of any other batch to within 1e-5. In bfloat16, the rounding
    depends on the shape of the batch and changes scores by some hundredths of a logit.
    """

    marker = ""
    suits_machine: ClassVar[tuple[str, ...]] = ("device", "batch_tokens", "tree_tokens")
    """The arguments that only suit the machine. They are not part of the job keys."""

    checkpoint: FromClass[str] = from_class("")
    """``nano:NAME``, a folder, or a hub id with or without ``@REVISION``. The default is the class attribute."""
    max_tokens: FromClass[Count] = from_class(4096)
    """Maximum length of a prefix in tokens, marker included. The default is the class attribute. A longer prefix is
    flagged, never cut."""
    dtype: Dtype = "auto"
    """Type of the trunk: ``auto`` (as saved; ``float32`` on a CPU), ``float32``, ``bfloat16`` or ``float16``. The head
    is float32."""
    device: SpreadableDevice = "auto"
    """``auto`` (the GPU if there is one), ``cpu``, ``cuda``, ``cuda:N`` or ``balanced``. With the last value, the
    layers are spread evenly over all GPUs, for models that do not fit on one GPU."""
    batch_tokens: Count = 4096
    """The approximate number of tokens in a forward pass."""
    tree_tokens: Count = 512
    """The largest number of tokens in a token tree. The cost of attention grows with its square. Smaller trees repeat
    more of a question."""
    read_thoughts: bool = True
    """True if the PRM reads the thoughts of a reasoning model, between ``<think>`` and ``</think>``. Otherwise it reads
    the text after the thought, and a prefix that ends inside the thought has the score of the bare question."""

    def __post_init__(self) -> None:
        for argument in fields(self):
            if getattr(self, argument.name) is None and "from_class" in argument.metadata:
                # None is also what the class with the argument has, as the default of the argument.
                value = getattr(type(self), argument.name)
                setattr(self, argument.name, argument.metadata["from_class"] if value is None else value)

    def check_arguments(self) -> None:
        """Raise an error if the checkpoint does not exist, or the class does not define where a score is read."""
        if not self.checkpoint:
            raise ValueError("The PRM needs a checkpoint: a folder, 'nano:NAME' or a hub id.")
        if not self.marker and type(self).tokenize is TransformersPRM.tokenize:
            raise ValueError(
                "The class must set 'marker', the text behind a prefix where the score is read, or define 'tokenize'. "
                "The score is then read at the last token."
            )
        check_checkpoint(self.checkpoint)

    def identity(self) -> dict[str, Any]:
        """Return the identity: the content of the weights, the marker and the longest input."""
        identity = super().identity()
        left_out = (*self.suits_machine, "checkpoint")
        identity["arguments"] = {name: value for name, value in identity["arguments"].items() if name not in left_out}
        identity["checkpoint"] = checkpoint_identity(self.checkpoint)
        return {**identity, "marker": self.marker, "max_tokens": self.max_tokens}

    @abstractmethod
    def prefix_text(self, question: str, steps: Sequence[str]) -> str:
        """Return the text that the model reads for a question and the first t steps, without the marker."""

    @abstractmethod
    def log_odds(self, head: torch.Tensor) -> torch.Tensor:
        """Map the head's outputs, of shape (..., outputs) in float32, to log-odds of success, of shape (...)."""

    def outputs(self) -> int:
        """Return how many outputs of the head `log_odds` reads, or 0 if the number is not known."""
        return 0

    def problems(self, solution_counts: Mapping[str, int]) -> list[PrmcalError]:
        """Also return problems of the checkpoint that the headers of its files show."""
        owner = next(cls for cls in type(self).__mro__ if "load_model" in vars(cls))
        # A class of somebody else that loads a model in its own way may have another head. Then none is looked for.
        is_known_head = owner.__module__.startswith("prmcal.") or "head_weights" in vars(owner)
        reader = f"the PRM '{self.plugin_name}'"
        head = self.head_weights if is_known_head else dict[str, int]
        return super().problems(solution_counts) + checkpoint_problems(self.checkpoint, head, reader)

    def head_weights(self) -> Head:
        """Return the weights of the head that `load_model` needs."""
        return {"score.weight": self.outputs()}

    def load_model(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """Load the trunk, which computes hidden states, and the head, which maps them to outputs.

        By default, the checkpoint is loaded as a token classifier of transformers.
        """
        from transformers import AutoModelForTokenClassification

        from prmcal.registry.models.pretrained import load_pretrained

        model: Any = load_pretrained(AutoModelForTokenClassification, self.checkpoint, self.dtype, self.device)
        return model.base_model, model.score

    def tokenize(self, text: str) -> list[int]:
        """Return the token ids of a prefix with its marker. The score is read at the last one."""
        return self._tokenization(text)

    def tokenize_prefix(self, question: str, steps: Sequence[str]) -> list[int]:
        """Return the token ids of a prefix with its marker.

        Override it for a format whose parts are tokenized separately.
        """
        return self.tokenize(self.prefix_text(question, steps) + self.marker)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The checkpoint's tokenizer. It is loaded at the first use."""
        from prmcal.registry.models.pretrained import load_tokenizer

        return load_tokenizer(self.checkpoint)

    @cached_property
    def _tokenization(self) -> Tokenization:
        return Tokenization(self.tokenizer)

    def close(self) -> None:
        """Release the model's memory. The model is loaded again at the next use."""
        if "modules" in vars(self):
            from prmcal.registry.models.pretrained import unload

            unload(self, "modules")

    @cached_property
    def _config(self) -> dict[str, Any]:
        return read_config(resolve_checkpoint(self.checkpoint))

    @cached_property
    def modules(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """The trunk and the head, in evaluation mode. They are loaded at the first use.

        The head is float32, on the device of the trunk's last layer.
        """
        from prmcal.registry.models.pretrained import move_to

        trunk, head = self.load_model()
        self._check_window(trunk)
        *_, last_weight = trunk.parameters()
        return trunk.eval(), move_to(head.float(), last_weight.device).eval()

    def hidden_states(self, requests: Sequence[ScoringRequest]) -> list[HiddenStates]:
        """Return the last layer's states at every token of every prefix, one forest per request."""
        # One at a time, so that what a run stores does not depend on the other questions of a shard.
        return [self._states_of(request) for request in requests]

    def _states_of(self, request: ScoringRequest) -> HiddenStates:
        from prmcal.registry.models.memory import in_halves

        width = int(getattr(self.modules[0].config, "hidden_size", 0))
        trajectories = [self._tokenized(request, steps, self.prefix_ids) for steps in request.trajectories]
        sequences = [ids for trajectory in trajectories for ids in trajectory.sequences]
        tree = token_tree.build_token_tree(sequences)
        states = HiddenStates(
            np.empty((len(tree), width), np.float32), tree.parents, tree.leaves, np.empty(len(tree.leaves))
        )
        # The mask of a pass takes the square of its largest tree, and its time, so a large tree is read in pieces.
        ends = np.cumsum([len(trajectory.sequences) for trajectory in trajectories])
        pieces: list[Ints] = []
        for (piece,) in token_tree.pack_trajectories(trajectories, min(self.batch_tokens, _STATE_TOKENS), 1):
            rows = [np.arange(ends[i] - len(trajectories[i].sequences), ends[i]) for i in piece]
            pieces.append(np.concatenate(rows))
        pieces = [rows for rows in pieces if len(rows)]
        sizes = [len(token_tree.subtree(tree, rows)[1]) for rows in pieces]
        for batch in token_tree.batch_by_size(sizes, self.batch_tokens):
            in_halves(
                lambda some: self._read_states(some, tree, states),
                [pieces[index] for index in batch],
                lambda some: self._smaller([token_tree.subtree(tree, rows)[1] for rows in some]),
                _halves,
            )
        return states

    def _check_window(self, trunk: torch.nn.Module) -> None:
        """Raise PluginFailedError if `max_tokens` exceeds the trunk's sliding window.

        In a token tree, a token attends to all earlier tokens. This equals the sliding window only for shorter texts.
        """
        window = getattr(getattr(trunk, "config", None), "sliding_window", None)
        if window and self.max_tokens > window:
            raise PluginFailedError(
                f"The checkpoint {self.checkpoint} has a sliding window of {window} tokens. Longer texts are not "
                f"supported. Set 'max_tokens' to {window} or less. Got {self.max_tokens}."
            )

    def _batches(self, trajectories: Sequence[token_tree.TokenizedTrajectory]) -> list[list[list[int]]]:
        return token_tree.pack_trajectories(trajectories, self.tree_tokens, self.batch_tokens)

    def _forward(self, sequences: Sequence[Sequence[Sequence[int]]]) -> Floats32:
        import torch

        trees = [token_tree.build_token_tree(of_tree) for of_tree in sequences if of_tree]
        if not trees:
            return np.empty(0, dtype=np.float32)
        rows = np.repeat(np.arange(len(trees)), [len(tree.leaves) for tree in trees])
        leaves = np.concatenate([tree.leaves for tree in trees])
        with torch.inference_mode():
            logits = self.log_odds(self.modules[1](self._hidden(trees)[rows, leaves].float()))
        if logits.shape != leaves.shape:
            raise FaultyPluginError(
                f"'log_odds' of the PRM '{self.plugin_name}' must return shape ({len(leaves)},) for outputs of shape "
                f"({len(leaves)}, outputs). Got {tuple(logits.shape)}."
            )
        return np.asarray(logits.float().cpu().numpy(), dtype=np.float32)

    def _values(self, sequences: Sequence[Sequence[Sequence[int]]]) -> Floats32:
        from prmcal.registry.models.memory import in_halves

        log_odds = in_halves(
            self._forward,
            sequences,
            lambda some: self._smaller([token_tree.build_token_tree(of_tree) for of_tree in some if of_tree]),
            _halves,
        )
        return np.concatenate(log_odds)

    def _smaller(self, trees: Sequence[token_tree.TokenTree]) -> None:
        from prmcal.registry.models.memory import shrink

        shrink(self, "PRM", max(map(len, trees)) * len(trees))
        self.tree_tokens = min(self.tree_tokens, self.batch_tokens)

    def _hidden(self, trees: Sequence[token_tree.TokenTree]) -> torch.Tensor:
        """The last layer's states at every node, of shape (trees, nodes, width), from one pass."""
        trunk, _ = self.modules
        weights = next(trunk.parameters())
        inputs = token_tree.collate_token_trees(trees, pad_id=0, dtype=weights.dtype, device=weights.device)
        hidden: torch.Tensor = trunk(**inputs, use_cache=False).last_hidden_state
        return hidden

    def _read_states(self, pieces: Sequence[Ints], tree: token_tree.TokenTree, states: HiddenStates) -> None:
        """Read some sequences of a tree in one pass, and write the states and log-odds where they belong."""
        import torch

        head = self.modules[1]
        subtrees = [token_tree.subtree(tree, rows) for rows in pieces]
        with torch.inference_mode():
            hidden = self._hidden([subtree for _, subtree in subtrees]).float()
            for rows, (nodes, subtree), own_hidden in zip(pieces, subtrees, hidden, strict=True):
                states.states[nodes] = own_hidden[: len(subtree)].cpu().numpy()
                states.logit[rows] = self.log_odds(head(own_hidden[subtree.leaves])).cpu().numpy()
