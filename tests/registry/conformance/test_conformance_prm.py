"""Every check fails for a PRM with the matching defect."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from prmcal import PRM, PrefixScores
from prmcal.registry.conformance import run_checks
from prmcal.registry.conformance.plugin import DECLARATIONS


class Sound(PRM):
    """Scores a prefix by the length of its text, at most 500. Each broken PRM differs in one thing."""

    max_tokens = 500

    def logit(self, question: str, steps: Sequence[str]) -> float:
        return (len(question) + sum(map(len, steps))) % 7 / 3 - 1

    def score(self, question: str, trajectories: Sequence[Sequence[str]]) -> list[PrefixScores]:
        return [self.one(question, steps) for steps in trajectories]

    def one(self, question: str, steps: Sequence[str]) -> PrefixScores:
        prefixes = [steps[:count] for count in range(len(steps) + 1)]
        over_long = np.array([len(question) + sum(map(len, prefix)) > self.max_tokens for prefix in prefixes])
        logit = np.array([self.logit(question, prefix) for prefix in prefixes], dtype=np.float32)
        logit[over_long] = np.nan
        return PrefixScores(logit, expit(logit.astype(np.float64)), over_long, tokens=len(prefixes))


class ForgetsTheBareQuestion(Sound):
    def one(self, question: str, steps: Sequence[str]) -> PrefixScores:
        scores = super().one(question, steps)
        return PrefixScores(scores.logit[1:], scores.reward[1:], scores.over_long[1:], scores.tokens)


class DropsATrajectory(Sound):
    def score(self, question: str, trajectories: Sequence[Sequence[str]]) -> list[PrefixScores]:
        return super().score(question, trajectories[1:])


class WrongType(Sound):
    def one(self, question: str, steps: Sequence[str]) -> PrefixScores:
        scores = super().one(question, steps)
        return replace(scores, reward=scores.reward.astype(np.float32))


class NotANumber(Sound):
    def logit(self, question: str, steps: Sequence[str]) -> float:
        return float("nan") if not steps else super().logit(question, steps)


class AboveOne(Sound):
    def one(self, question: str, steps: Sequence[str]) -> PrefixScores:
        scores = super().one(question, steps)
        return replace(scores, reward=scores.reward * 1.5 + 0.5)


class LogitOfSomethingElse(Sound):
    def one(self, question: str, steps: Sequence[str]) -> PrefixScores:
        scores = super().one(question, steps)
        return replace(scores, logit=-scores.logit)


class Random(Sound):
    calls = itertools.count()

    def logit(self, question: str, steps: Sequence[str]) -> float:
        return next(self.calls) % 5 / 2


class LooksAhead(Sound):
    def one(self, question: str, steps: Sequence[str]) -> PrefixScores:
        scores = super().one(question, steps)
        logit = (scores.logit + len(steps)).astype(np.float32)
        return replace(scores, logit=logit, reward=expit(logit.astype(np.float64)))


class DependsOnTheBatch(Sound):
    def score(self, question: str, trajectories: Sequence[Sequence[str]]) -> list[PrefixScores]:
        scored = super().score(question, trajectories)
        logits = [(scores.logit + 0.01 * len(scored)).astype(np.float32) for scores in scored]
        return [
            replace(scores, logit=logit, reward=expit(logit.astype(np.float64)))
            for scores, logit in zip(scored, logits, strict=True)
        ]


class MixesUpQuestions(Sound):
    def score_batch(self, requests: Any) -> list[list[PrefixScores]]:
        return [self.score(requests[0].question, request.trajectories) for request in requests]


class LosesRequests(Sound):
    def score_batch(self, requests: Any) -> list[list[PrefixScores]]:
        return super().score_batch(requests[:1])


class AnswersWithTheBareQuestion(Sound):
    def score_batch(self, requests: Any) -> list[list[PrefixScores]]:
        if not requests[0].whole_only:
            return super().score_batch(requests)
        bare = replace(requests[0], trajectories=((),) * len(requests[0].trajectories))
        return super().score_batch([bare])


class LeavesOutTheBareQuestion(Sound):
    def score_batch(self, requests: Any) -> list[list[PrefixScores]]:
        scored = super().score_batch(requests)
        if not requests[0].whole_only:
            return scored
        return [
            [PrefixScores(each.logit[1:], each.reward[1:], each.over_long[1:], 1) for each in of_question]
            for of_question in scored
        ]


class CutsInSilence(Sound):
    def one(self, question: str, steps: Sequence[str]) -> PrefixScores:
        return super().one(question, [step[:20] for step in steps])


class FlagsAndScores(Sound):
    def one(self, question: str, steps: Sequence[str]) -> PrefixScores:
        scores = super().one(question, steps)
        return replace(
            scores, logit=np.nan_to_num(scores.logit), reward=np.nan_to_num(scores.reward, nan=0.5)
        )


BROKEN: dict[type[PRM], tuple[str, str]] = {
    ForgetsTheBareQuestion: ("one score per prefix", "3 steps and the bare question instead of 4"),
    DropsATrajectory: ("one score per prefix", "It returned 5 scored trajectories instead of 6"),
    WrongType: ("one score per prefix", "'reward' must be an array of float64. Got an array of float32"),
    NotANumber: ("one score per prefix", "It returned NaN for a prefix that it did not flag"),
    AboveOne: ("one score per prefix", r"outside \[0, 1\]"),
    LogitOfSomethingElse: ("logit is the log odds of the reward", "logistic function of 'logit'"),
    Random: ("scoring is repeatable", "the same scores each time"),
    LooksAhead: (
        "later steps do not matter",
        "must not change when later steps are appended. With 0 of 4 steps",
    ),
    DependsOnTheBatch: (
        "batches do not matter",
        r"Scores must not depend on the batch. score\(\) of several",
    ),
    MixesUpQuestions: ("batches do not matter", r"score_batch\(\) differs"),
    LosesRequests: ("batches do not matter", "It returned 1 lists of scores instead of 2"),
    AnswersWithTheBareQuestion: (
        "whole only requests are answered",
        "must be that of the whole trajectory. It differs by",
    ),
    LeavesOutTheBareQuestion: (
        "whole only requests are answered",
        r"or the scores of all 4 prefixes. Got \[3\]",
    ),
    CutsInSilence: ("too long input is flagged", r"\[False, False, True\]. Got \[False, False, False\]"),
    FlagsAndScores: ("too long input is flagged", "must be scored NaN. Got reward 0.5"),
}


def test_a_sound_prm_passes() -> None:
    assert [result.name for result in run_checks(Sound()) if not result.passed] == ["hidden states"]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_prm_fails(broken: type[PRM]) -> None:
    name, message = BROKEN[broken]
    failed = {result.name: result.message for result in run_checks(broken()) if not result.passed}
    assert name in failed
    assert re.search(message, failed[name]), failed[name]


def test_every_check_is_seen_to_fail() -> None:
    names = {result.name for result in run_checks(Sound())[len(DECLARATIONS) :]}
    assert names - {"identity is json data", "hidden states"} == {name for name, _ in BROKEN.values()}


def test_a_prm_without_a_limit_is_not_asked_about_it() -> None:
    class Unlimited(Sound):
        max_tokens = float("inf")  # type: ignore[assignment]

    (result,) = (each for each in run_checks(Unlimited()) if each.name == "too long input is flagged")
    assert result.skipped
    assert not result.passed
    assert "no 'max_tokens'" in result.message
