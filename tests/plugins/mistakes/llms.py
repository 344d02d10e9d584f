"""LLMs of which each makes one mistake. The test says how `prmcal check` explains it."""

# mypy: ignore-errors

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
