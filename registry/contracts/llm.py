"""The contract of an LLM: it samples continuations of prefixes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from prmcal.registry.contracts.data import Completion, GenerationRequest, Prefix, Sampling
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.network import DEFAULT_PATIENCE, patiently
from prmcal.registry.splitting.argument import BLANK_LINE, Splitting, StepSplitting

__all__ = ["LLM"]


class LLM(Plugin, ABC):
    """A policy: samples completions of many prefixes at once.

    Attributes
    ----------
    repeats : bool
        Whether every call for a prefix begins with the same completions, for any seed. A grid must then ask for all
        samples of a prefix at once.
    patience : float
        Seconds for which an LLM whose network fails is asked again before its cells fail. A constructor argument of
        this name replaces the class's own. It is not part of the job keys.
    splitting : str or mapping
        Where the steps of its texts end; see :class:`prmcal.registry.splitting.argument.StepSplitting`. A constructor
        argument of this name, with the annotation `Splitting` of that module, replaces the class's own. The texts are
        rewritten after they are generated, so `generate` does not read it. It is part of the job keys unless it is
        ``blank-line`` without limits.
    """

    repeats: ClassVar[bool] = False
    patience: float = DEFAULT_PATIENCE
    splitting: Splitting = BLANK_LINE

    def identity(self) -> dict[str, Any]:
        """Return the identity, with the splitting if it can change a text."""
        known = super().identity()
        known["arguments"].pop("splitting", None)
        splitting = StepSplitting.of(self.splitting)
        return {**known, "splitting": splitting.identity()} if splitting.changes_texts else known

    @abstractmethod
    def generate(
        self, prefixes: Sequence[Prefix], n: int, sampling: Sampling, seed: int
    ) -> list[list[Completion]]:
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
            The same prefixes, n, sampling and seed give the same texts.

        Returns
        -------
        list of list of Completion
            For each prefix its `n` completions.
        """

    def generate_batch(
        self, requests: Sequence[GenerationRequest], sampling: Sampling
    ) -> list[list[Completion]]:
        """Continue several prefixes, each with its own n and seed. Searches use it.

        Each request returns the same as ``generate([prefix], n, sampling, seed)``. Override it if the LLM is faster in
        batches.
        """
        return [
            patiently(self, partial(self.generate, [each.prefix], each.n, sampling, each.seed))[0]
            for each in requests
        ]

    def count_tokens(self, text: str) -> int:
        """Return the length of a text, for the limits of a step. By default its words are counted.

        Override it if the LLM has a tokenizer.
        """
        return len(text.split())

    def opens_thought(self, question: str) -> bool:
        """Tell whether the prompt of a bare question ends with the tag ``<think>``. By default it does not.

        Override it if the prompt is known. The completions then begin inside a thought.
        """
        return False

    def close(self) -> None:
        """Free the model's memory. Called when no more work needs the model."""
