"""LLMs of which each makes one mistake, with the check that finds it and what it says."""

# mypy: ignore-errors

import itertools
import random
from dataclasses import replace

from prmcal import LLM, Completion, Prefix
from tests.registry.conformance.mistakes import mistake


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


class NoMistake(Sound):
    pass


@mistake("n completions", r"Got '.* Write Completion\(text, tokens, finish_reason\)")
class Texts(Sound):
    def generate(self, prefixes, n, sampling, seed):
        return [[each.text for each in part] for part in super().generate(prefixes, n, sampling, seed)]


@mistake("the seed decides the texts", "Check that the seed is used")
class IgnoresTheSeed(Sound):
    def generate(self, prefixes, n, sampling, seed):
        return super().generate(prefixes, n, sampling, 0)


@mistake("finish reasons", "Got 'eos'. Translate the reasons of the engine")
class ReasonOfTheEngine(Sound):
    def finish(self, text, sampling):
        return replace(super().finish(text, sampling), finish_reason="eos")


@mistake("samples differ", "turn greedy decoding off")
class Greedy(Sound):
    def one(self, prefix, sampling, seed):
        return super().one(prefix, sampling, "the same")


@mistake("stop strings", "cut the text before its first match")
class RunsOverStopStrings(Sound):
    def finish(self, text, sampling):
        return super().finish(text, replace(sampling, stop=()))


@mistake("a prefix is continued", "same with and without its steps. Check that they are used")
class IgnoresTheSteps(Sound):
    def one(self, prefix, sampling, seed):
        return super().one(Prefix(prefix.question), sampling, seed)


@mistake("token counts", "Got .None, 0.. Count the tokens with the LLM's tokenizer")
class CountsNoTokens(Sound):
    def finish(self, text, sampling):
        return replace(super().finish(text, sampling), tokens=None)


@mistake("token counts", "at most max_tokens = 4. Got")
class IgnoresTheLimit(Sound):
    def finish(self, text, sampling):
        return super().finish(text, replace(sampling, max_tokens=64))


@mistake("finish reasons", "Without stop strings, .* Got 'stop'")
class StopsWithoutAStopString(Sound):
    def finish(self, text, sampling):
        return replace(super().finish(text, sampling), finish_reason="stop")


@mistake("finish reasons", "Only a completion of max_tokens tokens ends with 'length'")
class AlwaysCutOff(Sound):
    def finish(self, text, sampling):
        return replace(super().finish(text, sampling), finish_reason="length")


@mistake("samples differ", "got the same samples in the same order")
class RepeatsSamples(Sound):
    def generate(self, prefixes, n, sampling, seed):
        return [super(RepeatsSamples, self).generate([prefix], n, sampling, seed)[0] for prefix in prefixes]


@mistake("the seed decides the texts", "The same seed must give equal texts")
class NoSeed(Sound):
    calls = itertools.count()

    def generate(self, prefixes, n, sampling, seed):
        return super().generate(prefixes, n, sampling, next(self.calls))


@mistake("a prefix is continued", "start again with its first step|must not repeat its prefix")
class StartsAgain(Sound):
    def one(self, prefix, sampling, seed):
        return self.finish("\n\n".join([*prefix.steps[:1], f"then {seed}"]), sampling)


@mistake("a batch equals its requests", "6 of 6 texts differ")
class OneSeedForABatch(Sound):
    def generate_batch(self, requests, sampling):
        return super().generate_batch([replace(request, seed=1) for request in requests], sampling)
