"""A PRM and its fitted calibrator: the raw and the calibrated rewards of all prefixes of new trajectories."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
from scipy.special import expit

from prmcal.arrays import Floats
from prmcal.errors import PrmcalError
from prmcal.harness.inference.results import PrefixRewards
from prmcal.harness.jobs.context import Models
from prmcal.harness.jobs.parameters import PluginReference
from prmcal.harness.jobs.plugin_calls import checked_rewards, checked_scores, plugin_guard
from prmcal.registry.contracts.calibrator import Calibrator, ScoredPrefixes
from prmcal.registry.contracts.data import HiddenStates, Prefix, ScoringRequest
from prmcal.registry.contracts.models import PRM
from prmcal.registry.contracts.results import require, require_length
from prmcal.registry.grading.extraction import MARKED, find_answer
from prmcal.steps import join_steps

QuestionAndSteps = tuple[str, Sequence[str]]
"""A question and the steps of one trajectory."""


@dataclass(frozen=True, eq=False)
class Scorer:
    """A PRM and a calibrator that was fitted for it. Several threads may share it.

    `levels` are the levels of the calibrated rewards, ascending.
    """

    models: Models
    prm: PluginReference
    calibrator: Calibrator
    calibrator_name: str
    levels: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.prm.name} calibrated by {self.calibrator_name}"

    @property
    def loaded_prm(self) -> PRM:
        """The PRM, which is loaded beside the LLM."""
        return self.models.prm(self.prm, beside=True)

    def rewards(self, trajectories: Sequence[QuestionAndSteps]) -> list[PrefixRewards]:
        """Return the rewards of all prefixes of some trajectories.

        Raises a PrmcalError if a question or a step is empty or no text. Raises a PluginFailedError if the PRM or the
        calibrator fails, or returns something outside its contract, such as NaN.
        """
        requests = [_request(question, steps) for question, steps in trajectories]
        if not requests:
            return []
        with self.models.lock:
            read_prm = self._states if self.calibrator.reads == "hidden" else self._scores
            log_odds, tokens, features = read_prm(requests)
            values = np.concatenate(log_odds)
            quantiles = np.full((len(values), len(self.levels)), np.nan)
            if len(features):
                with plugin_guard("calibrator", self.calibrator_name, "predict"):
                    quantiles[np.isfinite(values)] = checked_rewards(self.calibrator, features, self.levels)
        ends = np.cumsum([len(logits) for logits in log_odds])
        rows = zip(requests, log_odds, np.split(quantiles, ends[:-1]), tokens, strict=True)
        return [
            _prefix_rewards(self.levels, request.trajectories[0], logits, quantile_rows, count)
            for request, logits, quantile_rows, count in rows
        ]

    def _scores(self, requests: Sequence[ScoringRequest]) -> tuple[list[Floats], list[int], Any]:
        """Return the log-odds and tokens of each trajectory, and its prefixes' features for the calibrator."""
        with plugin_guard("prm", self.prm.name, "score"):
            scores = [score for (score,) in checked_scores(self.loaded_prm, requests)]
        log_odds = [np.asarray(score.logit, dtype=np.float64) for score in scores]
        values = np.concatenate(log_odds)
        is_readable = np.isfinite(values)
        features: Any = expit(values[is_readable]) if self.calibrator.reads == "reward" else values[is_readable]
        if self.calibrator.reads == "prm":
            prefixes = [
                Prefix(request.question, steps)
                for request in requests
                for steps in request.prefixes(*request.trajectories)
            ]
            features = ScoredPrefixes(self.loaded_prm, tuple(compress(prefixes, is_readable)), values[is_readable])
        return log_odds, [int(score.tokens) for score in scores], features

    def _states(self, requests: Sequence[ScoringRequest]) -> tuple[list[Floats], list[int], Any]:
        """Return the same from one pass for states and scores. Only the last prefixes can be too long."""
        with plugin_guard("prm", self.prm.name, "give hidden states"):
            forests = self.loaded_prm.hidden_states(requests)
            require_length(forests, len(requests), "forests of hidden states")
            for forest in forests:
                finite = np.isfinite(forest.states).all() and np.isfinite(forest.logit).all()
                require(bool(finite), "it returned NaN, or another value that is not finite.")
        log_odds = [
            np.append(forest.logit, np.full(len(request.trajectories[0]) + 1 - len(forest), np.nan))
            for forest, request in zip(forests, requests, strict=True)
        ]
        return log_odds, [len(forest.states) for forest in forests], HiddenStates.concatenate(forests)


def _prefix_rewards(
    levels: tuple[float, ...], steps: Sequence[str], log_odds: Floats, quantiles: Floats, tokens: int
) -> PrefixRewards:
    middle, first_terminal = int(np.argmin(np.abs(np.array(levels) - 0.5))), _first_terminal(steps)
    return PrefixRewards(
        levels=levels,
        log_odds=_plain(log_odds),
        uncalibrated=_plain(expit(log_odds)),
        quantiles=tuple(None if np.isnan(row).any() else tuple(row.tolist()) for row in quantiles),
        point=_plain(quantiles[:, middle]),
        terminal=tuple(t >= first_terminal for t in range(len(steps) + 1)),
        tokens=tokens,
    )


def _plain(values: Floats) -> tuple[float | None, ...]:
    return tuple(None if np.isnan(value) else float(value) for value in values)


def _first_terminal(steps: Sequence[str]) -> int:
    """Return the number of steps of the first prefix with a final answer, or T + 1 if there is none."""
    # An answer may begin in one step and end in a later one.
    ends = range(1, len(steps) + 1) if find_answer(join_steps(steps), MARKED) else ()
    return next((t for t in ends if find_answer(join_steps(steps[:t]), MARKED)), len(steps) + 1)


def _request(question: Any, steps: Any) -> ScoringRequest:
    """Return the request of a trajectory. Raise PrmcalError if a text is none, is empty, or is not valid Unicode."""
    if not isinstance(question, str) or not question.strip():
        raise PrmcalError("A question must be a text that is not empty.")
    if isinstance(steps, str) or not all(isinstance(step, str) and step.strip() for step in steps):
        raise PrmcalError("The steps must be a list of texts that are not empty.")
    try:
        "".join((question, *steps)).encode()
    except UnicodeEncodeError as error:
        raise PrmcalError("The text has half of a surrogate pair, so it is not valid.") from error
    return ScoringRequest(question, (tuple(steps),))
