"""Search: run a beam search over a slice of questions, with the LLM and the PRM loaded side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from prmcal.errors import PluginFailedError
from prmcal.harness.jobs.beam_search import Calibrate, beam_search
from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import SearchParameters
from prmcal.harness.jobs.plugin_calls import plugin_guard, require
from prmcal.registry.contracts.calibrator import Calibrator, ScoredPrefixes
from prmcal.registry.contracts.data import HiddenStates, Prefix, ScoringRequest
from prmcal.registry.contracts.models import PRM
from prmcal.registry.contracts.search import SearchStrategy
from prmcal.registry.network import patiently
from prmcal.registry.plugins import strategies
from prmcal.steps import join_steps

__all__ = ["calibrating", "compute"]

_MEDIAN = 0.5


def compute(shard: Shard[SearchParameters], context: Context) -> Output:
    """Return one row for each question, with the chosen answer and its costs."""
    import pandas as pd

    given = shard.parameters
    llm = context.llm(given.llm, beside=True)
    prm = context.prm(given.prm, beside=True)
    dataset = given.data.dataset
    questions = context.questions(given.data)
    with plugin_guard("strategy", given.strategy.name, "search"):
        strategy = given.strategy.build(strategies)
        if not isinstance(strategy, SearchStrategy):
            raise PluginFailedError("it must derive from prmcal.SearchStrategy.")
        reference = given.calibrator
        fitted = (
            None
            if reference is None
            else context.calibrator(reference).load(context.input_folder(shard, "fit"))
        )
        calibrate = calibrating(fitted, prm, given.level)
        found = beam_search(
            questions, llm, prm, strategy, calibrate, given.sampling, given.target, shard.seed
        )
    rows = []
    for each in found:
        text = join_steps(each.answer.steps)
        verdict, answer = context.grade(dataset, each.question, text)
        right = [
            context.grade(dataset, each.question, join_steps(beam.steps))[0] == "correct"
            for beam in each.finished
        ]
        rows.append(
            {
                "question_id": each.question.id,
                "text": text,
                "steps": len(each.answer.steps),
                "reward": each.answer.ranked_by,
                "answer": answer,
                "verdict": verdict,
                "correct": verdict == "correct",
                "finished": len(each.finished),
                "any_correct": any(right),
                "rounds": each.rounds,
                "generations": each.generations,
                "generated_tokens": each.generated_tokens,
                "prefill_tokens": each.prefill_tokens,
                "scored_tokens": each.scored_tokens,
            }
        )
    counts = dict.fromkeys(("steps", "finished", "rounds", "generations"), "int32")
    tokens = dict.fromkeys(("generated_tokens", "prefill_tokens", "scored_tokens"), "int64")
    frame = pd.DataFrame(rows).astype({"answer": "str", **counts, **tokens})
    return Output(
        {"searches": frame},
        samples=int(frame["generations"].sum()),
        generated_tokens=int(frame["generated_tokens"].sum()),
        scored_tokens=int(frame["scored_tokens"].sum()),
    )


def calibrating(calibrator: Calibrator | None, prm: PRM, level: float | None) -> Calibrate:
    """Return what maps logits to rewards: a fitted calibrator, or the logistic function if there is none.

    A strategy without a level beta reads the median.
    """
    if calibrator is None:
        return lambda prefixes, logits: (expit(logits), expit(logits))
    both = (_MEDIAN, level or _MEDIAN)
    levels = sorted(set(both))
    columns = [levels.index(each) for each in both]

    def calibrate(
        prefixes: Sequence[Prefix], logits: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        rewards = np.full((len(prefixes), 2), np.nan)
        readable = np.flatnonzero(~np.isnan(logits))
        if len(readable):
            features = _features(calibrator, prm, [prefixes[i] for i in readable], logits[readable])
            predicted = np.asarray(calibrator.predict_at(features, levels), dtype=np.float64)
            require(not np.isnan(predicted).any(), "its calibrator returned NaN.")
            rewards[readable] = predicted[:, columns]
        return rewards[:, 0], rewards[:, 1]

    return calibrate


def _features(
    calibrator: Calibrator, prm: PRM, prefixes: Sequence[Prefix], logits: NDArray[np.float64]
) -> Any:
    """Return the features that a calibrator reads of prefixes that were just scored."""
    if calibrator.reads == "prm":
        return ScoredPrefixes(prm, tuple(prefixes), logits)
    if calibrator.reads == "hidden":
        requests = [ScoringRequest(prefix.question, (prefix.steps,), whole_only=True) for prefix in prefixes]
        found = patiently(prm, lambda: prm.hidden_states(requests))
        return HiddenStates.concatenate([each[-1:] for each in found])
    return expit(logits) if calibrator.reads == "reward" else logits
