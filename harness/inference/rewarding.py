"""The rewards of prefixes, uncalibrated and calibrated: from one pass of the PRM where the calibrator allows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from prmcal.harness.inference.results import PrefixRewards
from prmcal.harness.jobs.context import Models
from prmcal.harness.jobs.parameters import PluginReference
from prmcal.harness.jobs.plugin_calls import plugin_guard, require, require_length
from prmcal.registry.contracts.calibrator import Calibrator, ScoredPrefixes
from prmcal.registry.contracts.data import HiddenStates, Prefix, PrefixScores, ScoringRequest
from prmcal.registry.contracts.models import PRM
from prmcal.registry.grading import extract_answer
from prmcal.registry.network import patiently
from prmcal.steps import join_steps

Item = tuple[str, tuple[str, ...]]
"""A question and the steps of one trajectory."""


@dataclass(frozen=True, eq=False)
class Rewarded:
    """The prefixes x_{0:0}, ..., x_{0:T} of one trajectory. What is too long for the PRM is NaN.

    Attributes
    ----------
    logit : ndarray of shape (T + 1,), float64
        The PRM's log-odds.
    quantiles : ndarray of shape (T + 1, levels), float64
        The calibrated rewards.
    tokens : int
        Tokens that the PRM read.
    """

    logit: NDArray[np.float64]
    quantiles: NDArray[np.float64]
    tokens: int

    def result(self, levels: tuple[float, ...], steps: Sequence[str], merged: bool = False) -> PrefixRewards:
        """Return it as plain data, for these steps. In a `merged` PRM there are no uncalibrated rewards."""
        read = np.isfinite(self.logit)
        middle = median_place(levels)
        return PrefixRewards(
            levels=levels,
            uncalibrated=tuple(
                float(expit(logit)) if there and not merged else None
                for logit, there in zip(self.logit, read, strict=True)
            ),
            quantiles=tuple(
                tuple(map(float, row)) if there else None
                for row, there in zip(self.quantiles, read, strict=True)
            ),
            point=tuple(
                float(row[middle]) if there else None for row, there in zip(self.quantiles, read, strict=True)
            ),
            terminal=tuple(t >= first_terminal(steps) for t in range(len(steps) + 1)),
            tokens=self.tokens,
        )


def median_place(levels: tuple[float, ...]) -> int:
    """Return the place of the level nearest to the median."""
    return int(np.argmin(np.abs(np.array(levels) - 0.5)))


def first_terminal(steps: Sequence[str]) -> int:
    """Return the number of steps of the first prefix with a final answer, or T + 1 if there is none."""
    for t in range(1, len(steps) + 1):
        # An answer may begin in one step and end in a later one.
        if "}" in steps[t - 1] and extract_answer(join_steps(steps[:t])) is not None:
            return t
    return len(steps) + 1


@runtime_checkable
class _InOnePass(Protocol):
    """A calibrator that changes the PRM, and computes both kinds of rewards in one pass."""

    def predict_with_scores(
        self, features: ScoredPrefixes
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...


@runtime_checkable
class _Tokenizing(Protocol):
    """A PRM that tells the token ids of a prefix, and None for one that is too long."""

    def prefix_ids(self, question: str, steps: Sequence[str]) -> tuple[int, ...] | None: ...


class Rewarder:
    """A PRM with a fitted calibrator.

    Parameters
    ----------
    models : Models
        It holds the PRM.
    reference : PluginReference
        The PRM, with its name in messages.
    calibrator : Calibrator or None
        None for an exported calibrated PRM, whose own outputs are the quantiles.
    name : str
        The name of the calibrator in messages.
    more_levels : sequence of float
        Levels beta besides the calibrator's own. They are left out unless it predicts any level.

    Attributes
    ----------
    levels : tuple of float
        The levels of the calibrated rewards, ascending.
    """

    def __init__(
        self,
        models: Models,
        reference: PluginReference,
        calibrator: Calibrator | None,
        name: str,
        more_levels: Sequence[float] = (),
    ) -> None:
        self.reference = reference
        self.calibrator = calibrator
        self.name = name
        self._models = models
        if calibrator is None:
            self.levels = _levels_of(self.prm)
        else:
            more = more_levels if calibrator.any_level and calibrator.reads != "prm" else ()
            self.levels = tuple(sorted({*calibrator.levels, *more}))

    @property
    def prm(self) -> PRM:
        """The PRM, which is loaded beside the LLM."""
        return self._models.prm(self.reference, beside=True)

    def scores(self, items: Sequence[Item]) -> list[PrefixScores]:
        """Return the PRM's own scores of all prefixes of some trajectories.

        Raises
        ------
        PluginFailedError
            If the PRM fails, or returns something outside its contract, such as NaN.
        """
        requests, places = _by_question(items)
        found = self._models.scores(self.reference, requests)
        return [found[request][trajectory] for request, trajectory in places]

    def rewards(self, items: Sequence[Item]) -> list[Rewarded]:
        """Return the uncalibrated and the calibrated rewards of all prefixes of some trajectories.

        Raises
        ------
        PluginFailedError
            If the PRM or the calibrator fails, or returns something outside its contract, such as NaN.
        """
        if not items:
            return []
        if self.calibrator is None:
            return self._from_outputs(items)
        if self.calibrator.reads == "hidden":
            return self._from_hidden(items)
        if isinstance(self.calibrator, _InOnePass) and isinstance(self.prm, _Tokenizing):
            return self._in_one_pass(items, self.calibrator, self.prm)
        return self._from_scores(items, self.calibrator.reads)

    def _from_scores(self, items: Sequence[Item], reads: str) -> list[Rewarded]:
        """A pass for the scores comes first. The calibrator reads these, and may use the PRM itself again."""
        scored = self.scores(items)
        logits = [np.asarray(each.logit, dtype=np.float64) for each in scored]
        values = np.concatenate(logits)
        read = np.isfinite(values)
        features: Any = expit(values[read]) if reads == "reward" else values[read]
        if reads == "prm":
            flat = [prefix for item in items for prefix in _prefixes(item)]
            features = ScoredPrefixes(self.prm, tuple(flat[i] for i in np.flatnonzero(read)), values[read])
        return self._filled(logits, self._predicted(features), [each.tokens for each in scored])

    def _from_hidden(self, items: Sequence[Item]) -> list[Rewarded]:
        """One pass gives states and scores. The prefixes that are too long are the last ones, and are left out."""
        requests = [ScoringRequest(question, (steps,)) for question, steps in items]
        forests = self._hidden(requests)
        features = HiddenStates.concatenate(forests)
        return self._of_forests(items, forests, self._predicted(features))

    def _from_outputs(self, items: Sequence[Item]) -> list[Rewarded]:
        """The outputs of an exported calibrated PRM are its quantiles."""
        import torch

        prm: Any = self.prm
        forests = self._hidden([ScoringRequest(question, (steps,)) for question, steps in items])
        with torch.inference_mode():
            head = prm.modules[1]
            device = next(head.parameters()).device
            outputs = [
                head(torch.tensor(each.states[each.leaves], device=device)).double().cpu().numpy()
                for each in forests
            ]
        predicted = np.sort(expit(np.concatenate(outputs)), axis=1)
        return self._of_forests(items, forests, predicted)

    def _of_forests(
        self, items: Sequence[Item], forests: Sequence[HiddenStates], predicted: NDArray[np.float64]
    ) -> list[Rewarded]:
        logits = [
            np.append(each.logit, np.full(len(steps) + 1 - len(each), np.nan))
            for each, (_, steps) in zip(forests, items, strict=True)
        ]
        return self._filled(logits, predicted, [len(each.states) for each in forests])

    def _in_one_pass(self, items: Sequence[Item], calibrator: _InOnePass, prm: _Tokenizing) -> list[Rewarded]:
        prefixes = [_prefixes(item) for item in items]
        ids = [[prm.prefix_ids(each.question, each.steps) for each in of_item] for of_item in prefixes]
        readable = [
            prefix
            for of_item, known in zip(prefixes, ids, strict=True)
            for prefix, one in zip(of_item, known, strict=True)
            if one is not None
        ]
        features = ScoredPrefixes(self.prm, tuple(readable), np.zeros(len(readable)))
        with plugin_guard("calibrator", self.name, "predict"):
            predicted, own = calibrator.predict_with_scores(features)
        self._check(predicted, len(readable))
        require(
            bool(np.isfinite(own).all()),
            f"The PRM '{self.reference.name}' returned NaN, or another value that is not finite.",
        )
        scores = iter(own)
        logits = [np.array([np.nan if one is None else next(scores) for one in known]) for known in ids]
        tokens = [max((len(one) for one in known if one is not None), default=0) for known in ids]
        return self._filled(logits, predicted, tokens)

    def _hidden(self, requests: Sequence[ScoringRequest]) -> list[HiddenStates]:
        with plugin_guard("prm", self.reference.name, "give hidden states"):
            found = patiently(self.prm, lambda: _hidden_states(self.prm, requests))
            require_length(found, len(requests), "forests of hidden states")
            for each in found:
                finite = np.isfinite(each.states).all() and np.isfinite(each.logit).all()
                require(bool(finite), "it returned NaN, or another value that is not finite.")
        return found

    def _predicted(self, features: Any) -> NDArray[np.float64]:
        assert self.calibrator is not None
        if not len(features):
            return np.empty((0, len(self.levels)))
        with plugin_guard("calibrator", self.name, "predict"):
            own = self.levels == tuple(self.calibrator.levels)
            predicted = np.asarray(
                self.calibrator.predict(features)
                if own
                else self.calibrator.predict_at(features, self.levels),
                dtype=np.float64,
            )
            self._check(predicted, len(features))
        return predicted

    def _check(self, predicted: NDArray[np.float64], rows: int) -> None:
        expected = (rows, len(self.levels))
        require(
            predicted.shape == expected,
            f"The calibrator '{self.name}' returned the shape {predicted.shape}, not {expected}.",
        )
        require(not np.isnan(predicted).any(), f"The calibrator '{self.name}' returned NaN.")

    def _filled(
        self,
        logits: Sequence[NDArray[np.float64]],
        predicted: NDArray[np.float64],
        tokens: Sequence[int],
    ) -> list[Rewarded]:
        """Put the predictions of the readable prefixes back to their places."""
        rows = iter(predicted)
        found = []
        for logit, count in zip(logits, tokens, strict=True):
            quantiles = np.full((len(logit), len(self.levels)), np.nan)
            read = np.isfinite(logit)
            own = list(islice(rows, int(read.sum())))
            if own:
                quantiles[read] = np.stack(own)
            found.append(Rewarded(logit, quantiles, int(count)))
        return found


def _hidden_states(prm: PRM, requests: Sequence[ScoringRequest]) -> list[HiddenStates]:
    """Return the hidden states, from fewer passes if the PRM can do so and its class has not changed what they are."""
    from prmcal.registry.prms.transformers import TransformersPRM

    if isinstance(prm, TransformersPRM) and type(prm).hidden_states is TransformersPRM.hidden_states:
        return prm.hidden_states_together(requests)
    return prm.hidden_states(requests)


def _prefixes(item: Item) -> list[Prefix]:
    question, steps = item
    return [Prefix(question, steps[:t]) for t in range(len(steps) + 1)]


def _levels_of(prm: PRM) -> tuple[float, ...]:
    from prmcal.registry.models.checkpoints import read_config, resolve_checkpoint

    return tuple(float(level) for level in read_config(resolve_checkpoint(prm.checkpoint))["levels"])


def _by_question(items: Sequence[Item]) -> tuple[list[ScoringRequest], list[tuple[int, int]]]:
    """Return one request for each question, and the place of each item in them."""
    groups: dict[str, list[tuple[str, ...]]] = {}
    for question, steps in items:
        groups.setdefault(question, []).append(steps)
    requests = [ScoringRequest(question, tuple(trajectories)) for question, trajectories in groups.items()]
    numbers = {question: number for number, question in enumerate(groups)}
    counters: dict[str, Iterator[int]] = {
        question: iter(range(len(group))) for question, group in groups.items()
    }
    return requests, [(numbers[question], next(counters[question])) for question, _ in items]
