"""The contracts of an LLM, which continues prefixes, and of a PRM, which scores them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from prmcal.errors import PluginFailedError
from prmcal.registry.contracts import data
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.network import DEFAULT_PATIENCE, patiently
from prmcal.registry.splitting import BLANK_LINE, Splitting, StepSplitting


class LLM(Plugin, ABC):
    """A policy: samples completions of many prefixes at once."""

    deterministic: ClassVar[bool] = True
    """False if the same call may give other bytes, as in an engine. Then the conformance checks allow other texts."""
    repeats: ClassVar[bool] = False
    """True if every call for a prefix begins with the same completions, for any seed. A grid must then ask for all
    samples of a prefix at once."""
    trajectories_per_shard: ClassVar[int] = 8
    """Trajectories of each question that one call samples after the first 8, by default. An engine that is fast with
    thousands of texts at once wants many."""
    patience: float = DEFAULT_PATIENCE
    """Seconds for which calls are repeated if the network of an LLM fails. Then its cells fail. A constructor argument
    of this name replaces the class's own. It is not part of the job keys."""
    splitting: Splitting = BLANK_LINE
    """The rule for the ends of steps in its texts; see :class:`prmcal.registry.splitting.StepSplitting`. A constructor
    argument of this name, with the annotation `Splitting` of that module, replaces the class's own. Texts are split
    after they are generated, so `generate` does not read this argument. It is part of the job keys."""

    def identity(self) -> dict[str, Any]:
        """Return the identity, with the splitting as it is understood."""
        identity = super().identity()
        identity["arguments"].pop("splitting", None)
        return {**identity, "splitting": StepSplitting.of(self.splitting).identity()}

    @abstractmethod
    def generate(
        self, prefixes: Sequence[data.Prefix], n: int, sampling: data.Sampling, seed: int
    ) -> list[list[data.Completion]]:
        """Sample `n` completions of each prefix.

        Parameters
        ----------
        prefixes : sequence of Prefix
            Questions with the steps so far. A completion continues the prefix after a step separator; it does not
            repeat it.
        n : int
            Independent completions per prefix.
        sampling : Sampling
            Temperature, nucleus, length and stop strings.
        seed : int
            The same prefixes, n, sampling and seed give the same texts, if the LLM is `deterministic`.

        Returns
        -------
        list of list of Completion
            For each prefix its `n` completions.
        """

    def generate_batch(
        self, requests: Sequence[data.GenerationRequest], sampling: data.Sampling
    ) -> list[list[data.Completion]]:
        """Continue several prefixes, each with its own n and seed. All jobs that sample use it.

        A request has the same result as ``generate([prefix], n, sampling, seed)``. Override it if the LLM is faster in
        batches.
        """
        calls = (partial(self.generate, [request.prefix], request.n, sampling, request.seed) for request in requests)
        return [patiently(self, call)[0] for call in calls]

    def count_tokens(self, text: str) -> int:
        """Return the length of a text, for the limits of a step. By default its words are counted.

        Override it if the LLM has a tokenizer.
        """
        return len(text.split())

    def opens_thought(self, question: str) -> bool:
        """Tell whether the prompt of a bare question ends with the tag ``<think>``. By default False.

        Override it if the prompt is known. The completions then begin inside a thought.
        """
        return False

    def share_gpus(self, beside: bool) -> None:
        """Leave memory on the GPUs for a PRM `beside` it, or take all memory again. By default nothing happens.

        Called before the model is used, and before a PRM is loaded. Override it if the model reserves memory.
        """

    def close(self) -> None:
        """Free the model's memory. Called when no more work needs the model."""


class PRM(Plugin, ABC):
    """A process reward model. TransformersPRM is a base for models on transformers and needs less code."""

    whole_sequences: ClassVar[bool] = False
    """True if prefixes with a common beginning are computed one by one, as an engine does, unless one sequence has the
    scores of all. The costs of a plan follow from it."""
    patience: float = DEFAULT_PATIENCE
    """Seconds for which calls are repeated if the network of a PRM fails. Then its cells fail. A constructor argument
    of this name replaces the class's own. It is not part of the job keys."""

    @abstractmethod
    def score(self, question: str, trajectories: Sequence[Sequence[str]]) -> list[data.PrefixScores]:
        """Score all prefixes of some trajectories of one question.

        Parameters
        ----------
        question : str
            The question's text.
        trajectories : sequence of sequence of str
            Each trajectory as its steps x_1..x_T.

        Returns
        -------
        list of PrefixScores
            For each trajectory the scores of x_{0:0}, x_{0:1}, ..., x_{0:T}. The score of a prefix must not depend on
            later steps, nor on other prefixes in the call.
        """

    def score_batch(self, requests: Sequence[data.ScoringRequest]) -> list[list[data.PrefixScores]]:
        """Score several questions. Override it if the PRM is faster in batches across questions."""
        return [patiently(self, partial(self.score, request.question, request.trajectories)) for request in requests]

    def hidden_states(self, requests: Sequence[data.ScoringRequest]) -> list[data.HiddenStates]:
        """Return the hidden states at every token of every prefix. Override it if the PRM has hidden states.

        Calibrators with ``reads = "hidden"`` use them.

        Raises a PluginFailedError if the PRM has no hidden states.

        Returns
        -------
        list of HiddenStates
            One for each request. Its rows are the prefixes x_{0:0}, ..., x_{0:T} of the first trajectory, then of the
            second, and so on; with `whole_only` they are the whole trajectories. Prefixes that are too long for the PRM
            are left out.
        """
        raise PluginFailedError(
            "it does not define 'hidden_states'. Derive it from TransformersPRM, or leave out calibrators that read "
            "hidden states."
        )

    def close(self) -> None:
        """Free the model's memory. Called when no more work needs the model."""
