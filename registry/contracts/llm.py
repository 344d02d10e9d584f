"""The contract of an LLM: it samples continuations of prefixes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from prmcal.registry.contracts.data import Completion, GenerationRequest, Prefix, Sampling
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.network import DEFAULT_PATIENCE, patiently

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
    """

    repeats: ClassVar[bool] = False
    patience: float = DEFAULT_PATIENCE

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

    def close(self) -> None:
        """Free the model's memory. Called when no more work needs the model."""
