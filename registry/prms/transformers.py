"""The base of PRMs on transformers: say what the model reads and how to read its head, the rest is done here."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.data import PrefixScores, ScoringRequest
from prmcal.registry.contracts.features import HiddenStates
from prmcal.registry.contracts.prm import PRM
from prmcal.registry.models.checkpoints import (
    SPREAD,
    check_checkpoint,
    check_device,
    check_dtype,
    checkpoint_identity,
)
from prmcal.registry.prms.token_tree import (
    build_token_tree,
    collate_token_trees,
    shared_length,
    token_tree_size,
)

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

__all__ = ["TransformersPRM"]


@dataclass(frozen=True)
class Trajectory:
    """The token ids of those prefixes of a trajectory that are asked for (None: too long), and their tree's size."""

    prefixes: tuple[tuple[int, ...] | None, ...]
    size: int

    @property
    def sequences(self) -> list[tuple[int, ...]]:
        return [ids for ids in self.prefixes if ids is not None]


class TransformersPRM(PRM):
    """A PRM that reads the log-odds of success at a marker behind a prefix.

    A subclass sets `checkpoint`, `marker` and `max_tokens` as class attributes and defines `prefix_text` and
    `log_odds`. Where the model is not a token classifier of transformers it also defines `load_model`.

    Parameters
    ----------
    checkpoint : str, optional
        ``nano:NAME``, a folder, or a hub id with or without ``@REVISION``; by default the class's own.
    max_tokens : int, optional
        Longest prefix, marker included, in tokens; by default the class's own. A longer one is flagged, never cut.
    dtype : str, default="auto"
        Type of the trunk: ``auto`` (as saved), ``float32``, ``bfloat16`` or ``float16``. The head is float32.
    device : str, default="auto"
        ``auto`` (the GPU if there is one), ``cpu``, ``cuda`` or ``cuda:N``; or ``balanced``, which spreads the layers
        evenly over all GPUs, for models that one of them does not hold.
    batch_tokens : int, default=4096
        Tokens of one forward pass, about.
    tree_tokens : int, default=512
        Size at which a token tree is full. Attention costs the square of it, a smaller one repeats more questions.

    Attributes
    ----------
    marker : str
        What follows a prefix; the score is read at its last token. A class that defines `tokenize` itself, and with it
        where the score is read, may leave it empty.

    Notes
    -----
    All prefixes of all trajectories are scored in few passes: see :mod:`prmcal.registry.prms.token_tree`. In float32
    the scores equal those of separate passes, and those of any other batch, to within 1e-5. In bfloat16 each shape of a
    batch rounds in its own way, by some hundredths of a logit.
    """

    checkpoint: str = ""
    marker: str = ""
    max_tokens: int = 4096

    def __init__(
        self,
        checkpoint: str | None = None,
        max_tokens: int | None = None,
        dtype: str = "auto",
        device: str = "auto",
        batch_tokens: int = 4096,
        tree_tokens: int = 512,
    ) -> None:
        if checkpoint is not None:
            self.checkpoint = checkpoint
        if max_tokens is not None:
            self.max_tokens = max_tokens
        self.dtype = dtype
        self.device = device
        self.batch_tokens = batch_tokens
        self.tree_tokens = tree_tokens

    def check_arguments(self) -> None:
        """Refuse unknown types and devices, empty batches and checkpoints that are not there."""
        for name in ("max_tokens", "batch_tokens", "tree_tokens"):
            value = getattr(self, name)
            if value < 1:
                raise ValueError(f"The '{name}' parameter must be an int in [1, inf). Got {value} instead.")
        check_dtype(self.dtype)
        check_device(self.device, SPREAD)
        if not self.checkpoint:
            raise ValueError("It needs a checkpoint: a folder, 'nano:NAME' or a hub id.")
        if not self.marker and type(self).tokenize is TransformersPRM.tokenize:
            raise ValueError(
                "Its class must set 'marker', the text at which a score is read, or define 'tokenize', at whose "
                "last token it is read."
            )
        check_checkpoint(self.checkpoint)

    def identity(self) -> dict[str, Any]:
        """Which weights they are, wherever they lie, and what the model reads: not the machine's limits."""
        known = super().identity()
        left_out = ("checkpoint", "device", "batch_tokens", "tree_tokens")
        known["arguments"] = {k: v for k, v in known["arguments"].items() if k not in left_out}
        return {
            **known,
            "checkpoint": checkpoint_identity(self.checkpoint),
            "marker": self.marker,
            "max_tokens": self.max_tokens,
        }

    @abstractmethod
    def prefix_text(self, question: str, steps: Sequence[str]) -> str:
        """What the model reads of a question and the first t steps (none for t = 0), marker excluded."""

    @abstractmethod
    def log_odds(self, head: torch.Tensor) -> torch.Tensor:
        """Log-odds of success, of shape (...), of the head's outputs, of shape (..., outputs) in float32."""

    def load_model(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """Load the trunk, which gives hidden states, and the head, which maps them to its outputs.

        By default the checkpoint is read as a token classifier of transformers. The head is cast to float32.
        """
        from transformers import AutoModelForTokenClassification

        from prmcal.registry.models.pretrained import load_pretrained

        model: Any = load_pretrained(
            AutoModelForTokenClassification, self.checkpoint, self.dtype, self.device
        )
        return model.base_model, model.score

    def tokenize(self, text: str) -> list[int]:
        """Token ids of a prefix with its marker. The last one is where the score is read."""
        return list(self.tokenizer(text, verbose=False)["input_ids"])

    def tokenize_prefix(self, question: str, steps: Sequence[str]) -> list[int]:
        """Token ids of a prefix with its marker, for formats whose parts are tokenized by themselves."""
        return self.tokenize(self.prefix_text(question, steps) + self.marker)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The checkpoint's tokenizer, loaded when it is first needed."""
        from prmcal.registry.models.pretrained import load_tokenizer

        return load_tokenizer(self.checkpoint)

    def score(self, question: str, trajectories: Sequence[Sequence[str]]) -> list[PrefixScores]:
        """Score all prefixes of some trajectories of one question; see :meth:`prmcal.PRM.score`."""
        request = ScoringRequest(question, tuple(tuple(steps) for steps in trajectories))
        return self.score_batch([request])[0]

    def score_batch(self, requests: Sequence[ScoringRequest]) -> list[list[PrefixScores]]:
        """Score several questions, their trees packed into common batches.

        Raises
        ------
        PluginFailedError
            If `log_odds` does not give one value per prefix, or a checkpoint cannot be read.
        """
        # Equal trajectories are scored once, and in this order neighbours share the most.
        distinct = sorted(
            {(number, steps) for number, request in enumerate(requests) for steps in request.trajectories}
        )
        prefix_ids = cache(self.prefix_ids)
        trajectories = [self._read(requests[number], steps, prefix_ids) for number, steps in distinct]
        scores: dict[tuple[int, tuple[str, ...]], PrefixScores] = {}
        for batch in self._batches(trajectories):
            values = self._forward(
                [[ids for i in tree for ids in trajectories[i].sequences] for tree in batch]
            )
            for i in (i for tree in batch for i in tree):
                count = len(trajectories[i].sequences)
                scores[distinct[i]] = _prefix_scores(trajectories[i], values[:count])
                values = values[count:]
        return [
            [scores[number, steps] for steps in request.trajectories]
            for number, request in enumerate(requests)
        ]

    def close(self) -> None:
        """Drop the model; it is loaded again when it is needed again."""
        if "modules" in vars(self):
            from prmcal.registry.models.pretrained import unload

            unload(self, "modules")

    @cached_property
    def modules(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """The trunk and, in float32, the head, both in evaluation mode; loaded when they are first needed.

        The head is where the trunk's last layer is.
        """
        from prmcal.registry.models.pretrained import move_to

        trunk, head = self.load_model()
        self._check_window(trunk)
        *_, last = trunk.parameters()
        return trunk.eval(), move_to(head.float(), last.device).eval()

    def prefix_ids(self, question: str, steps: Sequence[str]) -> tuple[int, ...] | None:
        """Token ids of a prefix up to where its score is read, or None if it is longer than `max_tokens`."""
        ids = tuple(self.tokenize_prefix(question, steps))
        if not ids:
            raise PluginFailedError(
                f"The PRM '{self.plugin_name}' makes no tokens of a prefix of {len(steps)} steps."
            )
        return ids if len(ids) <= self.max_tokens else None

    def hidden_states(self, requests: Sequence[ScoringRequest]) -> list[HiddenStates]:
        """The last layer's states at every token of every prefix, one forest per request.

        Returns
        -------
        list of HiddenStates
            Rows are the prefixes x_{0:0}, ..., x_{0:T} of the first trajectory, then those of the second, and so on;
            where whole trajectories alone are asked for, x_{0:T} of each. Prefixes that are too long are left out.
        """
        found = []
        for request in requests:
            read = [self._read(request, steps, self.prefix_ids) for steps in request.trajectories]
            found.append(self._states([ids for trajectory in read for ids in trajectory.sequences]))
        return found

    def _check_window(self, trunk: torch.nn.Module) -> None:
        """Refuse texts longer than a sliding window: a token tree attends to all that is before a token.

        Up to the window's own length that is what the model does by itself, so that the window changes nothing.
        """
        window = getattr(getattr(trunk, "config", None), "sliding_window", None)
        if window and self.max_tokens > window:
            raise PluginFailedError(
                f"The checkpoint {self.checkpoint} attends to a sliding window of {window} tokens, which one pass over "
                f"all prefixes does not keep. Set 'max_tokens' to {window} or less. Got {self.max_tokens}."
            )

    def _read(
        self,
        request: ScoringRequest,
        steps: tuple[str, ...],
        prefix_ids: Callable[[str, tuple[str, ...]], tuple[int, ...] | None],
    ) -> Trajectory:
        first = len(steps) if request.whole_only else 0
        prefixes = [prefix_ids(request.question, steps[:count]) for count in range(first, len(steps) + 1)]
        fitting = [ids for ids in prefixes if ids is not None]
        return Trajectory(tuple(prefixes), token_tree_size(fitting))

    def _batches(self, trajectories: Sequence[Trajectory]) -> Iterator[list[list[int]]]:
        """Put trajectories together to trees, by their indices, and trees of like size to batches."""
        trees: list[list[int]] = []
        sizes: list[int] = []
        longest: tuple[int, ...] = ()
        for index, trajectory in enumerate(trajectories):
            newest = trajectory.sequences[-1] if trajectory.sequences else ()
            added = trajectory.size - shared_length(longest, newest)
            if trees and sizes[-1] + added <= self.tree_tokens:
                trees[-1].append(index)
                sizes[-1] += added
            else:
                trees.append([index])
                sizes.append(trajectory.size)
            longest = newest
        batch: list[list[int]] = []
        largest = 0
        for number in sorted(range(len(trees)), key=lambda number: -sizes[number]):
            if batch and largest * (len(batch) + 1) > self.batch_tokens:
                yield batch
                batch = []
            largest = max(largest, sizes[number]) if batch else sizes[number]
            batch.append(trees[number])
        if batch:
            yield batch

    def _forward(self, sequences: Sequence[Sequence[Sequence[int]]]) -> NDArray[np.float32]:
        """Log-odds at the end of every sequence, tree by tree, of shape (all sequences,)."""
        import torch

        trunk, head = self.modules
        weights = next(trunk.parameters())
        trees = [build_token_tree(of_tree) for of_tree in sequences if of_tree]
        if not trees:
            return np.empty(0, dtype=np.float32)
        inputs = collate_token_trees(trees, pad_id=0, dtype=weights.dtype)
        rows = np.repeat(np.arange(len(trees)), [len(tree.leaves) for tree in trees])
        leaves = np.concatenate([tree.leaves for tree in trees])
        with torch.inference_mode():
            inputs = {name: tensor.to(weights.device) for name, tensor in inputs.items()}
            hidden = trunk(**inputs, use_cache=False).last_hidden_state
            logits = self.log_odds(head(hidden[rows, leaves].float()))
        if logits.shape != leaves.shape:
            raise PluginFailedError(
                f"'log_odds' of the PRM '{self.plugin_name}' must turn outputs of shape (prefixes, outputs) into "
                f"shape ({len(leaves)},). Got {tuple(logits.shape)}."
            )
        return np.asarray(logits.float().cpu().numpy(), dtype=np.float32)

    def _states(self, sequences: Sequence[Sequence[int]]) -> HiddenStates:
        """The states and log-odds of the sequences of one tree."""
        import torch

        trunk, head = self.modules
        weights = next(trunk.parameters())
        tree = build_token_tree(sequences)
        inputs = collate_token_trees([tree], pad_id=0, dtype=weights.dtype)
        with torch.inference_mode():
            inputs = {name: tensor.to(weights.device) for name, tensor in inputs.items()}
            hidden = trunk(**inputs, use_cache=False).last_hidden_state[0].float()
            logits = self.log_odds(head(hidden[tree.leaves]))
        return HiddenStates(
            states=hidden.cpu().numpy(),
            parents=tree.parents,
            leaves=tree.leaves,
            logit=logits.cpu().numpy().astype(np.float64),
        )


def _prefix_scores(trajectory: Trajectory, values: NDArray[np.float32]) -> PrefixScores:
    from scipy.special import expit

    over_long = np.array([ids is None for ids in trajectory.prefixes])
    logit = np.full(len(over_long), np.nan, dtype=np.float32)
    logit[~over_long] = values
    return PrefixScores(
        logit=logit, reward=expit(logit.astype(np.float64)), over_long=over_long, tokens=trajectory.size
    )
