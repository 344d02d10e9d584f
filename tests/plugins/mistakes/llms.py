"""LLMs of which each makes one mistake. The test says how `prmcal check` explains it."""

# mypy: ignore-errors

import itertools
import random
from dataclasses import replace

from prmcal import LLM, Completion, Prefix, llm


class Sound(LLM):
    """Returns up to four steps of random digits. Each character is a token."""

    def generate(self, prefixes, n, sampling, seed):
        return [
            [self.one(prefix, sampling, f"{seed} {number} {sample}") for sample in range(n)]
            for number, prefix in enumerate(prefixes)
        ]

    def one(self, prefix, sampling, seed):
        digits = random.Random(f"{seed} {prefix}")
        steps = [f"{len(prefix.steps) + i}) {digits.randrange(1000)}" for i in range(4 - len(prefix.steps))]
        return self.finish("\n\n".join(steps), sampling)

    def finish(self, text, sampling):
        whole = text[: sampling.max_tokens]
        cut = min((whole.find(stop) for stop in sampling.stop if stop in whole), default=len(whole))
        ended = "end" if len(text) < sampling.max_tokens else "length"
        return Completion(whole[:cut], len(whole), "stop" if cut < len(whole) else ended)


@llm("no mistake")
class NoMistake(Sound):
    pass


@llm("texts")
class Texts(Sound):
    def generate(self, prefixes, n, sampling, seed):
        return [[each.text for each in part] for part in super().generate(prefixes, n, sampling, seed)]


@llm("flat list")
class FlatList(Sound):
    def generate(self, prefixes, n, sampling, seed):
        return [each for part in super().generate(prefixes, n, sampling, seed) for each in part]


@llm("ignores the seed")
class IgnoresTheSeed(Sound):
    def generate(self, prefixes, n, sampling, seed):
        return super().generate(prefixes, n, sampling, 0)


@llm("reason of the engine")
class ReasonOfTheEngine(Sound):
    def finish(self, text, sampling):
        return replace(super().finish(text, sampling), finish_reason="eos")


@llm("greedy")
class Greedy(Sound):
    def one(self, prefix, sampling, seed):
        return super().one(prefix, sampling, "the same")


@llm("runs over stop strings")
class RunsOverStopStrings(Sound):
    def finish(self, text, sampling):
        return super().finish(text, replace(sampling, stop=()))


@llm("repeats the prefix")
class RepeatsThePrefix(Sound):
    def one(self, prefix, sampling, seed):
        completion = super().one(prefix, sampling, seed)
        return self.finish("\n\n".join([*prefix.steps, completion.text]), sampling)


@llm("ignores the steps")
class IgnoresTheSteps(Sound):
    def one(self, prefix, sampling, seed):
        return super().one(Prefix(prefix.question), sampling, seed)


@llm("counts no tokens")
class CountsNoTokens(Sound):
    def finish(self, text, sampling):
        return replace(super().finish(text, sampling), tokens=None)


@llm("one completion too few")
class OneCompletionTooFew(Sound):
    def generate(self, prefixes, n, sampling, seed):
        return super().generate(prefixes, n - 1, sampling, seed)


@llm("ignores the limit")
class IgnoresTheLimit(Sound):
    def finish(self, text, sampling):
        return super().finish(text, replace(sampling, max_tokens=64))


@llm("stops without a stop string")
class StopsWithoutAStopString(Sound):
    def finish(self, text, sampling):
        return replace(super().finish(text, sampling), finish_reason="stop")


@llm("always cut off")
class AlwaysCutOff(Sound):
    def finish(self, text, sampling):
        return replace(super().finish(text, sampling), finish_reason="length")


@llm("hides stop strings")
class HidesStopStrings(Sound):
    def finish(self, text, sampling):
        completion = super().finish(text, sampling)
        return replace(completion, finish_reason="length") if sampling.stop else completion


@llm("repeats samples")
class RepeatsSamples(Sound):
    def generate(self, prefixes, n, sampling, seed):
        return [super(RepeatsSamples, self).generate([prefix], n, sampling, seed)[0] for prefix in prefixes]


@llm("no seed")
class NoSeed(Sound):
    calls = itertools.count()

    def generate(self, prefixes, n, sampling, seed):
        return super().generate(prefixes, n, sampling, next(self.calls))


@llm("starts again")
class StartsAgain(Sound):
    def one(self, prefix, sampling, seed):
        return self.finish("\n\n".join([*prefix.steps[:1], f"then {seed}"]), sampling)


@llm("one seed for a batch")
class OneSeedForABatch(Sound):
    def generate_batch(self, requests, sampling):
        return super().generate_batch([replace(request, seed=1) for request in requests], sampling)
