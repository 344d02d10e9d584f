"""A world without models, in which every success probability is known: fast, and exact to test against.

A question asks for ``steps`` steps; the LLM takes each of them rightly with probability ``skill``. A wrong
step shows in the text, so that the PRM can see it; the PRM takes the LLM to have the skill that it was built with.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit as log_odds

from prmcal import (
    LLM,
    PRM,
    Calibrator,
    Completion,
    Dataset,
    Prefix,
    PrefixScores,
    Question,
    Sampling,
    calibrator,
    dataset,
    llm,
    prm,
)
from prmcal.registry.contracts.data import FinishReason
from prmcal.registry.splitting import BLANK_LINE, Splitting


@dataset("synthetic-questions")
class SyntheticQuestions(Dataset):
    splits = ("calibration", "test")

    def __init__(self, longest: int = 5) -> None:
        self.longest = longest

    def questions(self, split: str, count: int | None = None) -> list[Question]:
        return [
            Question(f"{split}-{i}", f"{split} {i}: take {1 + i % self.longest} steps", "1", 1 + i % self.longest)
            for i in range(count or 40)
        ]


def steps_of(question: str) -> int:
    return int(question.split()[-2])


def cut(completion: Completion, stop: tuple[str, ...]) -> Completion:
    """A completion up to its first stop string."""
    text = completion.text
    text = text[: min((text.find(each) for each in stop if each in text), default=len(text))]
    reason: FinishReason = "stop" if len(text) < len(completion.text) else completion.finish_reason
    return replace(completion, text=text, finish_reason=reason, tokens=10 * text.count("step") + 5 * ("boxed" in text))


@llm("synthetic-llm")
class SyntheticLLM(LLM):
    def __init__(self, skill: float = 0.8, pause: float = 0.0, log: str = "") -> None:
        self.skill = skill
        self.pause = pause
        self.log = log

    def generate(self, prefixes: Sequence[Prefix], n: int, sampling: Sampling, seed: int) -> list[list[Completion]]:
        time.sleep(self.pause)
        if self.log:
            with Path(self.log).open("a") as file:
                file.write(f"{len(prefixes)} {n}\n")
        random = np.random.default_rng(seed)
        drawn = [[self._complete(prefix, random) for _ in range(n)] for prefix in prefixes]
        return [[cut(each, sampling.stop) for each in of_prefix] for of_prefix in drawn]

    def _complete(self, prefix: Prefix, random: np.random.Generator) -> Completion:
        steps = list(prefix.steps)
        for number in range(len(steps), steps_of(prefix.question)):
            right = random.random() < self.skill and "wrong" not in "".join(steps)
            steps.append(f"step {number + 1} {'right' if right else 'wrong'} {random.integers(1000)}")
        answer = "0" if "wrong" in "".join(steps) else "1"
        text = "\n\n".join([*steps[len(prefix.steps) :], f"so \\boxed{{{answer}}}"])
        return Completion(text, 10 * text.count("step") + 5, "end", 8 + 10 * len(prefix.steps))


@llm("thinking-llm")
class ThinkingLLM(SyntheticLLM):
    """Its steps are a thought, whose beginning is in the prompt. A share of its thoughts are cut off."""

    def __init__(self, skill: float = 0.8, cut_off: float = 0.2, splitting: Splitting = BLANK_LINE) -> None:
        super().__init__(skill)
        self.cut_off = cut_off
        self.splitting = splitting

    def opens_thought(self, question: str) -> bool:
        return True

    def _complete(self, prefix: Prefix, random: np.random.Generator) -> Completion:
        before = "\n\n".join(prefix.steps)
        if "</think>" in before:
            return Completion(f"so \\boxed{{{0 if 'wrong' in before else 1}}}", 5, "end", 8)
        taken = ("step " * before.count("step ")).split()
        whole = super()._complete(replace(prefix, steps=tuple(taken)), random)
        *steps, answer = whole.text.split("\n\n")
        if "wrong" in before:
            answer = "so \\boxed{0}"
        thought = "\n\n".join([*steps, "maybe \\boxed{1}"])
        if random.random() < self.cut_off:
            return replace(whole, text=thought, finish_reason="length")
        return replace(whole, text=f"{thought}\n</think>\n\n{answer}")


@prm("synthetic-prm")
class SyntheticPRM(PRM):
    def __init__(self, skill: float = 0.95, flaw: str = "") -> None:
        self.skill = skill
        self.flaw = flaw

    def score(self, question: str, trajectories: Sequence[Sequence[str]]) -> list[PrefixScores]:
        if self.flaw == "raises":
            raise RuntimeError("out of luck")
        return [self._score(question, steps) for steps in trajectories]

    def _score(self, question: str, steps: Sequence[str]) -> PrefixScores:
        total = steps_of(question)
        rewards = np.array(
            [
                0.01 if "wrong" in "".join(steps[:t]) else min(0.999, self.skill ** max(0, total - t))
                for t in range(len(steps) + 1)
            ]
        )
        if self.flaw == "NaN":
            rewards[0] = np.nan
        if self.flaw == "above 1":
            rewards[0] = 1.5
        if self.flaw == "wrong shape":
            rewards = rewards[:-1]
        clipped = np.clip(rewards, 1e-3, 1 - 1e-3)
        logit = log_odds(np.nan_to_num(clipped, nan=0.5)).astype(np.float32)
        return PrefixScores(logit, rewards, np.zeros(len(rewards), dtype=bool), 7 * len(steps))


@calibrator("broken")
class Broken(Calibrator):
    """A calibrator whose fit or predict goes wrong."""

    def __init__(self, flaw: str = "raises") -> None:
        self.flaw = flaw

    def fit(self, features: NDArray[np.float64], k: NDArray[np.int64], n: NDArray[np.int64]) -> Self:
        if self.flaw == "raises":
            raise ZeroDivisionError("no slope")
        self.fitted_ = 1.0
        return self

    def predict(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.flaw == "NaN":
            return np.full((len(features), 1), np.nan)
        if self.flaw == "wrong shape":
            return np.zeros(len(features))
        return np.full((len(features), 1), 1.5)


@calibrator("spread")
class Spread(Calibrator):
    """The reward with a fixed spread around it, as quantiles."""

    levels = (0.1, 0.5, 0.9)

    def fit(self, features: NDArray[np.float64], k: NDArray[np.int64], n: NDArray[np.int64]) -> Self:
        self.bias_ = float(np.mean(features) - np.sum(k) / np.sum(n))
        return self

    def predict(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        spread = (features - self.bias_)[:, None] + np.array([-0.2, 0.0, 0.2])
        rewards: NDArray[np.float64] = np.clip(spread, 0, 1)
        return rewards


@calibrator("any-spread")
class AnySpread(Spread):
    """The same spread, at every level."""

    any_level = True

    def predict(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.predict_at(features, self.levels)

    def predict_at(self, features: NDArray[np.float64], levels: Sequence[float]) -> NDArray[np.float64]:
        rewards: NDArray[np.float64] = np.clip((features - self.bias_)[:, None] + (np.array(levels) - 0.5) / 2, 0, 1)
        return rewards
