"""The checks for PRMs."""

from __future__ import annotations

from collections.abc import Sequence
from unittest import SkipTest

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from prmcal.registry.conformance.plugin import expect
from prmcal.registry.contracts.data import PrefixScores, ScoringRequest
from prmcal.registry.contracts.prm import PRM

__all__ = ["CHECKS"]

_TOLERANCE = 1e-5
"""The allowed difference of two rewards that should be equal, for a PRM in float32."""
_BROADER_TYPE = " In bfloat16, rounding depends on the batch. Check the PRM with dtype=float32."

_QUESTION = "Start with 37 and keep two digits. a) add 15, b) subtract 8, c) multiply by 3."
_OTHER_QUESTION = "Begin at 05, keeping two digits. a) subtract 6, b) add 12."
_TRAJECTORIES: tuple[tuple[str, ...], ...] = (
    ("a) 37+15=52", "b) 52-8=44", "c) 44*3=\\boxed{32}"),
    ("a) 37+15=42", "b) 42-8=34"),
    (),
    ("a) 37+15=52", "b) 52-8=44", "c) 44*3=\\boxed{32}", "That is all."),
    ("I do not know.",),
    ("a) 37+15=42", "b) 42-8=34"),
)


def _score(plugin: PRM, question: str, trajectories: Sequence[Sequence[str]]) -> list[PrefixScores]:
    """Scores, after a check of their number and shape."""
    scored = plugin.score(question, trajectories)
    expect(
        len(scored) == len(trajectories),
        f"score() must return one PrefixScores per trajectory: {len(trajectories)}. Got {len(scored)}.",
    )
    for scores, steps in zip(scored, trajectories, strict=True):
        for name in ("logit", "reward", "over_long"):
            shape = np.shape(getattr(scores, name))
            expect(
                shape == (len(steps) + 1,),
                f"A trajectory of {len(steps)} steps has {len(steps) + 1} prefixes, including the bare question. "
                f"'{name}' has shape {shape}.",
            )
    return scored


def _gap(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The largest difference. NaN equals NaN only."""
    if not np.array_equal(np.isnan(first), np.isnan(second)):
        return float("inf")
    return float(np.nanmax(np.abs(first - second), initial=0.0))


def check_one_score_per_prefix(plugin: PRM) -> None:
    """There are T + 1 scores, with the types of the contract."""
    types = {"logit": np.float32, "reward": np.float64, "over_long": np.bool_}
    for scores in _score(plugin, _QUESTION, _TRAJECTORIES):
        for name, expected in types.items():
            got = getattr(scores, name).dtype
            expect(got == expected, f"'{name}' must be an array of {np.dtype(expected)}. Got {got}.")
        expect(scores.tokens >= 0, f"'tokens' must be a count. Got {scores.tokens}.")
    expect(plugin.score(_QUESTION, []) == [], "score(question, []) must return an empty list.")


def check_scores_are_probabilities(plugin: PRM) -> None:
    """Scores are finite and rewards are in [0, 1], except for prefixes that are too long."""
    for scores in _score(plugin, _QUESTION, _TRAJECTORIES):
        for name in ("reward", "logit"):
            values = getattr(scores, name)[~scores.over_long]
            expect(
                bool(np.isfinite(values).all()),
                f"'{name}' must be finite where over_long is false. Got {values}.",
            )
        rewards = scores.reward[~scores.over_long]
        expect(bool(((rewards >= 0) & (rewards <= 1)).all()), f"Rewards must be in [0, 1]. Got {rewards}.")


def check_logit_is_the_log_odds_of_the_reward(plugin: PRM) -> None:
    """The reward is the logistic function of the logit, which is more precise near 0 and 1."""
    for scores in _score(plugin, _QUESTION, _TRAJECTORIES):
        gap = _gap(expit(scores.logit.astype(np.float64)), scores.reward)
        expect(
            gap < 1e-4, f"'reward' must be the logistic function of 'logit'. They differ by up to {gap:.3g}."
        )


def check_scoring_is_repeatable(plugin: PRM) -> None:
    """The same input has the same score each time."""
    first, second = (_score(plugin, _QUESTION, _TRAJECTORIES) for _ in range(2))
    gap = max(_gap(a.reward, b.reward) for a, b in zip(first, second, strict=True))
    expect(
        gap == 0,
        f"The same trajectories must have the same scores each time. They differ by up to {gap:.3g}.",
    )


def check_later_steps_do_not_matter(plugin: PRM) -> None:
    """The score of a prefix does not depend on later steps."""
    whole = _TRAJECTORIES[3]
    rewards = _score(plugin, _QUESTION, [whole])[0].reward
    for count in range(len(whole)):
        alone = _score(plugin, _QUESTION, [whole[:count]])[0].reward
        gap = _gap(alone, rewards[: count + 1])
        expect(
            gap < _TOLERANCE,
            f"The score of a prefix must not change when later steps are appended. With {count} of {len(whole)} steps "
            f"it differs by {gap:.3g}, and must differ by less than {_TOLERANCE}.{_BROADER_TYPE}",
        )


def check_batches_do_not_matter(plugin: PRM) -> None:
    """A score does not depend on the other trajectories and questions of its batch."""
    together = _score(plugin, _QUESTION, _TRAJECTORIES)
    other = [("a) 05-6=99", "b) 99+12=\\boxed{11}")]
    requests = [ScoringRequest(_OTHER_QUESTION, tuple(other)), ScoringRequest(_QUESTION, _TRAJECTORIES)]
    batches = plugin.score_batch(requests)
    sizes = [len(of_question) for of_question in batches]
    expected = [len(other), len(_TRAJECTORIES)]
    expect(sizes == expected, f"score_batch() must return {expected} scores for these requests. Got {sizes}.")
    for steps, scores, batched in zip(_TRAJECTORIES, together, batches[1], strict=True):
        alone = _score(plugin, _QUESTION, [steps])[0]
        for name, others in (("score() of several", scores), ("score_batch()", batched)):
            gap = (
                _gap(alone.reward, others.reward)
                if alone.reward.shape == others.reward.shape
                else float("inf")
            )
            expect(
                gap < _TOLERANCE,
                f"Scores must not depend on the batch. {name} differs from a single trajectory by {gap:.3g}, and must "
                f"differ by less than {_TOLERANCE}.{_BROADER_TYPE}",
            )


def check_whole_only_requests_are_answered(plugin: PRM) -> None:
    """The last score of a `whole_only` request is that of the whole trajectory."""
    (scored,) = plugin.score_batch([ScoringRequest(_QUESTION, _TRAJECTORIES, whole_only=True)])
    for scores, everything in zip(scored, _score(plugin, _QUESTION, _TRAJECTORIES), strict=True):
        counts = {len(scores.logit), len(scores.reward), len(scores.over_long)}
        expect(
            counts <= {1, len(everything.logit)} and len(counts) == 1,
            "For 'whole_only', score_batch() must return one score, of the whole trajectory, or the scores of all "
            f"{len(everything.logit)} prefixes. Got {sorted(counts)}.",
        )
        gap = _gap(scores.reward[-1:], everything.reward[-1:])
        expect(
            gap < _TOLERANCE,
            f"The last score of a 'whole_only' request must be that of the whole trajectory. It differs by {gap:.3g}, "
            f"and must differ by less than {_TOLERANCE}.{_BROADER_TYPE}",
        )


def check_too_long_input_is_flagged(plugin: PRM) -> None:
    """A prefix that is too long is flagged and scored NaN. Shorter prefixes keep their scores."""
    limit = getattr(plugin, "max_tokens", None)
    if not isinstance(limit, int):
        raise SkipTest("It has no 'max_tokens', so its limit is unknown.")
    short = _TRAJECTORIES[0][0]
    scores = _score(plugin, _QUESTION, [(short, "7+" * limit)])[0]
    flags = scores.over_long.tolist()
    expect(
        flags == [False, False, True],
        f"Only prefixes with more than max_tokens = {limit} tokens must have the flag 'over_long': "
        f"[False, False, True]. Got {flags}. Do not cut the input.",
    )
    expect(
        bool(np.isnan(scores.reward[2]) and np.isnan(scores.logit[2])),
        f"A too long prefix must be scored NaN. Got reward {scores.reward[2]}, logit {scores.logit[2]}.",
    )
    gap = _gap(scores.reward[:2], _score(plugin, _QUESTION, [(short,)])[0].reward)
    expect(
        gap < _TOLERANCE,
        f"A too long prefix must not change the scores before it. They differ by {gap:.3g}.",
    )


CHECKS = (
    check_one_score_per_prefix,
    check_scores_are_probabilities,
    check_logit_is_the_log_odds_of_the_reward,
    check_scoring_is_repeatable,
    check_later_steps_do_not_matter,
    check_batches_do_not_matter,
    check_whole_only_requests_are_answered,
    check_too_long_input_is_flagged,
)
