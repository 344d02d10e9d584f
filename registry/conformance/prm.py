"""The checks for PRMs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import SkipTest

import numpy as np
from scipy.special import expit

from prmcal.arrays import Floats
from prmcal.errors import PluginFailedError
from prmcal.registry.conformance.plugin import expect, expect_array, further_checks
from prmcal.registry.contracts import results
from prmcal.registry.contracts.data import HiddenStates, PrefixScores, ScoringRequest
from prmcal.registry.contracts.models import PRM
from prmcal.registry.plugins import prms

_TOLERANCE = 1e-5
"""The allowed difference of two rewards that should be equal, for a PRM in float32."""

_QUESTION = "Start with 37 and keep two digits. a) add 15, b) subtract 8, c) multiply by 3."
_OTHER_QUESTION = "Begin at 05, keeping two digits. a) subtract 6, b) add 12."
_TRAJECTORIES: tuple[tuple[str, ...], ...] = (
    ("a) 37+15=52", "b) 52-8=44", "c) 44*3=\\boxed{32}"),
    ("a) 37+15=42", "b) 42-8=34"),
    (),
    ("a) 37+15=52", "b) 52-8=44", "c) 44*3=\\boxed{32}", "That is all."),
    ("I do not know.", "So I stop."),
    ("a) 37+15=42", "b) 42-8=34"),
)


def _score(plugin: PRM, question: str, trajectories: Sequence[Sequence[str]]) -> list[PrefixScores]:
    """Scores, after a check of their number and of each of them."""
    prefix_scores = plugin.score(question, trajectories)
    _check_scores(prefix_scores, trajectories)
    return prefix_scores


def _check_scores(prefix_scores: Any, trajectories: Sequence[Sequence[str]]) -> None:
    results.require_length(prefix_scores, len(trajectories), "scored trajectories")
    for scores, steps in zip(prefix_scores, trajectories, strict=True):
        results.check_scores(scores, len(steps))
        expect_array("'logit'", scores.logit, np.float32)
        expect_array("'reward'", scores.reward, np.float64)
        expect_array("'over_long'", scores.over_long, np.bool_)


def _gap(left: Floats, right: Floats) -> float:
    """The largest difference. NaN equals NaN only."""
    if not np.array_equal(np.isnan(left), np.isnan(right)):
        return float("inf")
    return float(np.nanmax(np.abs(left - right), initial=0.0))


def check_one_score_per_prefix(plugin: PRM) -> None:
    """There are T + 1 scores, with the types of the contract."""
    _score(plugin, _QUESTION, _TRAJECTORIES)
    expect(plugin.score(_QUESTION, []) == [], "score(question, []) must return []. Loop over the trajectories.")


def check_logit_is_the_log_odds_of_the_reward(plugin: PRM) -> None:
    """The reward is the logistic function of the logit, which is more precise near 0 and 1."""
    for scores in _score(plugin, _QUESTION, _TRAJECTORIES):
        gap = _gap(expit(scores.logit.astype(np.float64)), scores.reward)
        expect(
            gap < 1e-4,
            f"'reward' must be the logistic function of 'logit'. They differ by up to {gap:.3g}. Write logit = "
            "scipy.special.logit(reward) if the model gives probabilities.",
        )


def check_scoring_is_repeatable(plugin: PRM) -> None:
    """The same input has the same score each time."""
    first, second = (_score(plugin, _QUESTION, _TRAJECTORIES) for _ in range(2))
    gap = max(_gap(scores.reward, scores_again.reward) for scores, scores_again in zip(first, second, strict=True))
    expect(
        gap == 0,
        f"The same trajectories must have the same scores each time. They differ by up to {gap:.3g}. Draw no random "
        "numbers, and call model.eval() to turn dropout off.",
    )


def check_later_steps_do_not_matter(plugin: PRM) -> None:
    """The score of a prefix does not depend on later steps."""
    steps = _TRAJECTORIES[3]
    rewards = _score(plugin, _QUESTION, [steps])[0].reward
    for count in range(len(steps)):
        alone = _score(plugin, _QUESTION, [steps[:count]])[0].reward
        gap = _gap(alone, rewards[: count + 1])
        expect(
            gap < _TOLERANCE,
            f"The score of a prefix must not change when later steps are appended. With {count} of "
            f"{len(steps)} steps it differs by {gap:.3g}, and must differ by less than 1e-5. Read the score at the "
            "last token of the prefix, with a causal mask. In bfloat16, rounding depends on the batch. Check the "
            "PRM with dtype=float32.",
        )


def check_batches_do_not_matter(plugin: PRM) -> None:
    """A score does not depend on the other trajectories and questions of its batch."""
    together = _score(plugin, _QUESTION, _TRAJECTORIES)
    singles = [_score(plugin, _QUESTION, [steps])[0] for steps in _TRAJECTORIES]
    other_trajectories = [("a) 05-6=99", "b) 99+12=\\boxed{11}")]
    requests = [ScoringRequest(_OTHER_QUESTION, tuple(other_trajectories)), ScoringRequest(_QUESTION, _TRAJECTORIES)]
    batches = plugin.score_batch(requests)
    results.require_length(batches, len(requests), "lists of scores")
    for request, of_question in zip(requests, batches, strict=True):
        _check_scores(of_question, request.trajectories)
    for alone, scores, batched in zip(singles, together, batches[1], strict=True):
        for name, scores_in_batch in (("score() of several", scores), ("score_batch()", batched)):
            gap = _gap(alone.reward, scores_in_batch.reward)
            expect(
                gap < _TOLERANCE,
                f"Scores must not depend on the batch. {name} differs from a single trajectory by {gap:.3g}, and "
                "must differ by less than 1e-5. Mask the padding, put sorted trajectories back in their order "
                "(scored[i] = ... for trajectory i), and score each trajectory with its own question. In bfloat16, "
                "rounding depends on the batch. Check the PRM with dtype=float32.",
            )


def check_whole_only_requests_are_answered(plugin: PRM) -> None:
    """The last score of a `whole_only` request is the score of the whole trajectory."""
    (whole_scores,) = plugin.score_batch([ScoringRequest(_QUESTION, _TRAJECTORIES, whole_only=True)])
    for scores, all_scores in zip(whole_scores, _score(plugin, _QUESTION, _TRAJECTORIES), strict=True):
        counts = {len(scores.logit), len(scores.reward), len(scores.over_long)}
        expect(
            counts <= {1, len(all_scores.logit)} and len(counts) == 1,
            "For 'whole_only', score_batch() must return one score, of the whole trajectory, or the scores of all "
            f"{len(all_scores.logit)} prefixes. Got {sorted(counts)}. Leave score_batch() as it is if in doubt.",
        )
        gap = _gap(scores.reward[-1:], all_scores.reward[-1:])
        expect(
            gap < _TOLERANCE,
            "The last score of a 'whole_only' request must be the score of the whole trajectory. It differs by "
            f"{gap:.3g}, and must differ by less than 1e-5. In bfloat16, rounding depends on the batch. Check the "
            "PRM with dtype=float32.",
        )


def check_too_long_input_is_flagged(plugin: PRM) -> None:
    """A prefix that is too long is flagged and scored NaN. Shorter prefixes keep their scores."""
    limit = getattr(plugin, "max_tokens", None)
    if not isinstance(limit, int):
        raise SkipTest("It has no 'max_tokens', so its limit is unknown.")
    short = _TRAJECTORIES[0][0]
    before = _score(plugin, _QUESTION, [(short,)])[0].reward
    try:
        prefix_scores = plugin.score(_QUESTION, [(short, "7+" * limit)])
    except Exception as error:
        raise AssertionError(
            f"score() must not raise for a prefix with more than max_tokens = {limit} tokens. Got "
            f"{type(error).__name__}: {error}. Write over_long = True and NaN for this prefix, and score the shorter "
            "ones."
        ) from error
    (scores,) = prefix_scores
    flags = scores.over_long.tolist()
    expect(
        flags == [False, False, True],
        f"Only prefixes with more than max_tokens = {limit} tokens must have the flag 'over_long': [False, False, "
        f"True]. Got {flags}. Count the tokens before the model reads them, and do not cut the input.",
    )
    expect(
        np.isnan(scores.reward[2]) and np.isnan(scores.logit[2]),
        f"A too long prefix must be scored NaN. Got reward {scores.reward[2]}, logit {scores.logit[2]}. Write "
        "logit[over_long] = reward[over_long] = np.nan.",
    )
    gap = _gap(scores.reward[:2], before)
    expect(gap < _TOLERANCE, f"A too long prefix must not change other scores (by {gap:.3g}). Leave it out.")


def check_hidden_states(plugin: PRM) -> None:
    """Hidden states, if the PRM defines them, have a row for each prefix, with its logit and a path to its root."""
    if type(plugin).hidden_states is PRM.hidden_states:
        raise SkipTest("It does not define 'hidden_states', so calibrators that read them cannot use it.")
    trajectories = _TRAJECTORIES[:2]
    try:
        hidden_states = plugin.hidden_states([ScoringRequest(_QUESTION, trajectories)])
    except PluginFailedError as error:  # It says that it has none with these arguments.
        raise SkipTest(str(error)) from error
    is_list = isinstance(hidden_states, list) and len(hidden_states) == 1
    expect(
        is_list and isinstance(hidden_states[0], HiddenStates),
        "hidden_states() must return a list with one HiddenStates for each request. Write [HiddenStates(states, "
        "parents, leaves, logit), ...].",
    )
    (states,) = hidden_states
    nodes, rows = len(states.states), sum(len(steps) + 1 for steps in trajectories)
    shapes = {name: np.shape(getattr(states, name)) for name in ("states", "parents", "leaves", "logit")}
    fit = (
        np.ndim(states.states) == 2 and shapes["parents"] == (nodes,) and shapes["leaves"] == shapes["logit"] == (rows,)
    )
    expect(
        fit,
        f"For {rows} prefixes, HiddenStates must have 'states' of shape (nodes, width), 'parents' of shape (nodes,), "
        f"'leaves' and 'logit' of shape ({rows},). Got {shapes}. Write one row for each prefix, the bare questions "
        "too.",
    )
    ends = np.asarray(states.leaves)
    are_before = (np.asarray(states.parents) < np.arange(nodes)).all()
    expect(
        are_before and ((ends >= 0) & (ends < nodes)).all(),
        "In HiddenStates each of 'parents' must be smaller than its own index, -1 for a first token, and each of "
        "'leaves' must be the index of a node. Write the tokens in the order in which the PRM reads them.",
    )
    logits = np.concatenate([scores.logit for scores in _score(plugin, _QUESTION, trajectories)])
    gap = _gap(expit(logits.astype(np.float64)), expit(np.asarray(states.logit, dtype=np.float64)))
    expect(
        gap < _TOLERANCE,
        f"'logit' of HiddenStates must be the 'logit' of score(). The rewards differ by up to {gap:.3g}. Write the "
        "rows in the order of the prefixes: x_0, ..., x_T of the first trajectory, then of the second. In bfloat16, "
        "rounding depends on the batch. Check the PRM with dtype=float32.",
    )


CHECKS = further_checks(globals())


_PUBLISHED_TOLERANCE = 0.03
"""The allowed difference of a reward. bfloat16 rounds differently on every machine, and some numbers are rounded."""


def published_examples() -> list[dict[str, Any]]:
    """Return the examples of published.yaml: rewards of some steps that a plugin with a checkpoint should give."""
    import yaml

    text = Path(__file__).with_name("published.yaml").read_text(encoding="utf-8")
    return [{"arguments": {}, **example} for example in yaml.safe_load(text)]


def compare_with_example(plugin: PRM, example: Mapping[str, Any]) -> None:
    """A PRM with these weights reproduces the published rewards. It is built again with the example's arguments."""
    plugin.close()
    reader = prms.create(plugin.plugin_name, **{**plugin.arguments, **example["arguments"]})
    rewards = reader.score(example["question"], [example["steps"]])[0].reward[1:]
    reader.close()
    gap = float(np.abs(rewards - example["rewards"]).max())
    expect(
        gap < _PUBLISHED_TOLERANCE,
        f"The rewards of {example['checkpoint']} for the example of {example['source']} are {example['rewards']}. "
        f"Got {rewards}, which differ by up to {gap:.2g}. Check the weights.",
    )
