"""PRMs of which each makes one mistake. The test says how `prmcal check` explains it."""

# mypy: ignore-errors

import itertools
from dataclasses import replace

import numpy as np
from scipy.special import expit

from prmcal import PRM, PrefixScores, prm


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


@prm("no mistake")
class NoMistake(Sound):
    pass


@prm("lists of numbers")
class ListsOfNumbers(Sound):
    def score(self, question, trajectories):
        return [[0.5] * (len(steps) + 1) for steps in trajectories]


@prm("one array")
class OneArray(Sound):
    def score(self, question, trajectories):
        return np.full((len(trajectories), 5), 0.5)


@prm("scores in lists")
class ScoresInLists(Sound):
    def one(self, question, steps):
        scores = super().one(question, steps)
        return PrefixScores(scores.logit.tolist(), scores.reward.tolist(), scores.over_long.tolist(), 1)


@prm("only the steps")
class OnlyTheSteps(Sound):
    def one(self, question, steps):
        scores = super().one(question, steps)
        return PrefixScores(scores.logit[1:], scores.reward[1:], scores.over_long[1:], scores.tokens)


@prm("equal trajectories once")
class EqualTrajectoriesOnce(Sound):
    def score(self, question, trajectories):
        return [self.one(question, steps) for steps in dict.fromkeys(trajectories)]


@prm("rewards above 1")
class RewardsAboveOne(Sound):
    def one(self, question, steps):
        scores = super().one(question, steps)
        return replace(scores, reward=scores.reward * 2)


@prm("NaN for the bare question")
class NaNForTheBareQuestion(Sound):
    def one(self, question, steps):
        scores = super().one(question, steps)
        scores.logit[0] = scores.reward[0] = np.nan
        return scores


@prm("probability as logit")
class ProbabilityAsLogit(Sound):
    def one(self, question, steps):
        scores = super().one(question, steps)
        return replace(scores, logit=scores.reward.astype(np.float32))


@prm("random scores")
class RandomScores(Sound):
    calls = itertools.count()

    def one(self, question, steps):
        scores = super().one(question, steps)
        logit = (scores.logit + next(self.calls) % 7).astype(np.float32)
        return replace(scores, logit=logit, reward=expit(logit.astype(np.float64)))


@prm("looks ahead")
class LooksAhead(Sound):
    def one(self, question, steps):
        scores = super().one(question, steps)
        logit = (scores.logit + len(steps)).astype(np.float32)
        return replace(scores, logit=logit, reward=expit(logit.astype(np.float64)))


@prm("sorted trajectories")
class SortedTrajectories(Sound):
    def score(self, question, trajectories):
        return [self.one(question, steps) for steps in sorted(trajectories, key=len)]


@prm("equal lengths exchanged")
class EqualLengthsExchanged(Sound):
    def score(self, question, trajectories):
        return super().score(question, [*trajectories[:-2], *reversed(trajectories[-2:])])


@prm("depends on the batch")
class DependsOnTheBatch(Sound):
    def score(self, question, trajectories):
        scored = super().score(question, trajectories)
        logits = [(each.logit + 0.01 * len(scored)).astype(np.float32) for each in scored]
        return [
            replace(each, logit=logit, reward=expit(logit.astype(np.float64)))
            for each, logit in zip(scored, logits, strict=True)
        ]


@prm("cuts long input")
class CutsLongInput(Sound):
    def one(self, question, steps):
        return super().one(question, [step[:20] for step in steps])


@prm("raises for long input")
class RaisesForLongInput(Sound):
    def one(self, question, steps):
        if sum(map(len, steps)) > self.max_tokens:
            raise ValueError("too long")
        return super().one(question, steps)


@prm("adds a step")
class AddsAStep(Sound):
    def one(self, question, steps):
        steps.append("The end.")
        return super().one(question, steps)


@prm("yields scores")
class YieldsScores(Sound):
    def score(self, question, trajectories):
        yield from (self.one(question, steps) for steps in trajectories)


@prm("package that is not there")
class PackageThatIsNotThere(Sound):
    def one(self, question, steps):
        import no_such_package

        return no_such_package.score(question, steps)


@prm("hidden states without the bare question")
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


@prm("mixes up questions")
class MixesUpQuestions(Sound):
    def score_batch(self, requests):
        return [self.score(requests[0].question, request.trajectories) for request in requests]


@prm("loses requests")
class LosesRequests(Sound):
    def score_batch(self, requests):
        return super().score_batch(requests[:1])


@prm("bare question for the whole")
class BareQuestionForTheWhole(Sound):
    def score_batch(self, requests):
        if not requests[0].whole_only:
            return super().score_batch(requests)
        return super().score_batch([replace(requests[0], trajectories=((),) * len(requests[0].trajectories))])


@prm("scores flagged prefixes")
class ScoresFlaggedPrefixes(Sound):
    def one(self, question, steps):
        scores = super().one(question, steps)
        return replace(
            scores, logit=np.nan_to_num(scores.logit), reward=np.nan_to_num(scores.reward, nan=0.5)
        )
