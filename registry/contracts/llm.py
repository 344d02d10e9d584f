"""The contract of an LLM: it continues prefixes of trajectories."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from prmcal.registry.contracts.data import Completion, GenerationRequest, Prefix, Sampling
from prmcal.registry.contracts.plugin import Plugin

__all__ = ["LLM"]


class LLM(Plugin, ABC):
    """A policy. ``generate`` samples completions of many prefixes at once.

    Attributes
    ----------
    repeats : bool
        Whether every call for a prefix begins with the same completions, whatever its seed. A grid then has to ask for
        all samples of a prefix at once.
    """

    repeats: ClassVar[bool] = False

    @abstractmethod
    def generate(
        self, prefixes: Sequence[Prefix], n: int, sampling: Sampling, seed: int
    ) -> list[list[Completion]]:
        """Sample `n` completions of each prefix.

        Parameters
        ----------
        prefixes : sequence of Prefix
            Questions with the steps so far. A prefix is continued after a step separator, not restarted.
        n : int
            Completions per prefix, independent of one another.
        sampling : Sampling
            Temperature, nucleus, length and stop strings.
        seed : int
            The same prefixes, n, sampling and seed give the same texts.

        Returns
        -------
        list of list of Completion
            ``len(prefixes)`` lists of `n` completions.
        """

    def generate_batch(
        self, requests: Sequence[GenerationRequest], sampling: Sampling
    ) -> list[list[Completion]]:
        """Continue several prefixes, each so many times and with a seed of its own, as a search does.

        A request gives what ``generate([prefix], n, sampling, seed)`` does. An LLM that gains from batching
        overrides this.
        """
        return [self.generate([each.prefix], each.n, sampling, each.seed)[0] for each in requests]

    def close(self) -> None:
        """Release the model's memory. Called when no more work needs it."""
