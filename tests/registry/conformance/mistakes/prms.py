"""PRMs of which each makes one mistake, with the check that finds it and what it says."""

# mypy: ignore-errors

import itertools
from dataclasses import replace

import numpy as np
from scipy.special import expit

from prmcal import PRM, PrefixScores
from tests.registry.conformance.mistakes import mistake


class Sound(PRM):
    """Scores a prefix by the length of its text."""

    max_tokens = 500

    def score(self, question, trajectories):
        return [self.one(question, steps) for steps in trajectories]

    def one(self, question, steps):
        lengths = np.array([len(question) + len("".join(steps[:t])) for t in range(len(steps) + 1)])
        over_long = lengths > self.max_tokens
        logit = np.where(over_long, np.nan, lengths % 7 / 3 - 1).astype(np.float32)
        return PrefixScores(logit, expit(logit.astype(np.float64)), over_long, int(lengths[-1]))


class NoMistake(Sound):
    pass


@mistake("one score per prefix", r"Got \[0\.5,.* Write PrefixScores\.from_rewards\(rewards\)")
class ListsOfNumbers(Sound):
    def score(self, question, trajectories):
        return [[0.5] * (len(steps) + 1) for steps in trajectories]


@mistake("one score per prefix", "It returned NaN for a prefix that it did not flag as too long")
class NotANumber(Sound):
    def one(self, question, steps):
        return PrefixScores.from_rewards([float("nan")] * (len(steps) + 1))


@mistake("one score per prefix", "3 steps and the bare question instead of 4. Return one for each")
class OnlyTheSteps(Sound):
    def one(self, question, steps):
        scores = super().one(question, steps)
        return PrefixScores(scores.logit[1:], scores.reward[1:], scores.over_long[1:], scores.tokens)


@mistake("one score per prefix", r"Write reward = scipy\.special\.expit\(logit\)")
class RewardsAboveOne(Sound):
    def one(self, question, steps):
        scores = super().one(question, steps)
        return replace(scores, reward=scores.reward * 2)


@mistake("logit is the log odds", r"Write logit = scipy\.special\.logit\(reward\)")
class ProbabilityAsLogit(Sound):
    def one(self, question, steps):
        scores = super().one(question, steps)
        return replace(scores, logit=scores.reward.astype(np.float32))


@mistake("scoring is repeatable", r"Draw no random numbers, and call model\.eval\(\)")
class RandomScores(Sound):
    calls = itertools.count()

    def one(self, question, steps):
        scores = super().one(question, steps)
        logit = (scores.logit + next(self.calls) % 7).astype(np.float32)
        return replace(scores, logit=logit, reward=expit(logit.astype(np.float64)))


@mistake("later steps do not matter", "Read the score at the last token of the prefix")
class LooksAhead(Sound):
    def one(self, question, steps):
        scores = super().one(question, steps)
        logit = (scores.logit + len(steps)).astype(np.float32)
        return replace(scores, logit=logit, reward=expit(logit.astype(np.float64)))


@mistake("batches do not matter", r"put sorted trajectories back in their order \(scored\[i\]")
class EqualLengthsExchanged(Sound):
    def score(self, question, trajectories):
        return super().score(question, [*trajectories[:-2], *reversed(trajectories[-2:])])


@mistake("batches do not matter", "Mask the padding")
class DependsOnTheBatch(Sound):
    def score(self, question, trajectories):
        scored = super().score(question, trajectories)
        logits = [(each.logit + 0.01 * len(scored)).astype(np.float32) for each in scored]
        return [
            replace(each, logit=logit, reward=expit(logit.astype(np.float64)))
            for each, logit in zip(scored, logits, strict=True)
        ]


@mistake("too long input is flagged", "do not cut the input")
class CutsLongInput(Sound):
    def one(self, question, steps):
        return super().one(question, [step[:20] for step in steps])


@mistake("too long input is flagged", "Write over_long = True and NaN for this prefix")
class RaisesForLongInput(Sound):
    def one(self, question, steps):
        if sum(map(len, steps)) > self.max_tokens:
            raise ValueError("too long")
        return super().one(question, steps)


@mistake("methods take", "Write return, not yield")
class YieldsScores(Sound):
    def score(self, question, trajectories):
        yield from (self.one(question, steps) for steps in trajectories)


@mistake("hidden states", "Write one row for each prefix, the bare")
class HiddenStatesWithoutTheBareQuestion(Sound):
    def hidden_states(self, requests):
        from prmcal import HiddenStates

        found = []
        for request in requests:
            scored = self.score(request.question, request.trajectories)
            logit = np.concatenate([each.logit[1:] for each in scored]).astype(np.float64)
            rows = len(logit)
            states = np.zeros((rows, 2), dtype=np.float32)
            found.append(HiddenStates(states, np.arange(rows) - 1, np.arange(rows), logit))
        return found


@mistake("batches do not matter", r"score_batch\(\) differs")
class MixesUpQuestions(Sound):
    def score_batch(self, requests):
        return [self.score(requests[0].question, request.trajectories) for request in requests]


@mistake("whole only requests", "must be the score of the whole trajectory")
class BareQuestionForTheWhole(Sound):
    def score_batch(self, requests):
        if not requests[0].whole_only:
            return super().score_batch(requests)
        return super().score_batch([replace(requests[0], trajectories=((),) * len(requests[0].trajectories))])


@mistake("too long input is flagged", "must be scored NaN. Got reward 0.5")
class ScoresFlaggedPrefixes(Sound):
    def one(self, question, steps):
        scores = super().one(question, steps)
        return replace(scores, logit=np.nan_to_num(scores.logit), reward=np.nan_to_num(scores.reward, nan=0.5))
