"""Every check of LLMs and of data sets fails for a plugin with the matching defect."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from prmcal import LLM, Completion, Dataset, Prefix, Question, Sampling
from prmcal.errors import DataError
from prmcal.registry.conformance import run_checks
from prmcal.registry.conformance.plugin import DECLARATIONS
from prmcal.registry.contracts.data import FinishReason


class Sound(LLM):
    """Returns up to four steps of random digits. Each broken LLM differs from it in one thing."""

    def generate(
        self, prefixes: Sequence[Prefix], n: int, sampling: Sampling, seed: int
    ) -> list[list[Completion]]:
        return [
            [self.one(prefix, sampling, f"{seed} {number} {sample}") for sample in range(n)]
            for number, prefix in enumerate(prefixes)
        ]

    def one(self, prefix: Prefix, sampling: Sampling, seed: str) -> Completion:
        generator = random.Random(f"{seed} {prefix}")
        steps = [
            f"{len(prefix.steps) + i}) {generator.randrange(1000)}" for i in range(4 - len(prefix.steps))
        ]
        return self.finish("\n\n".join(steps), sampling)

    def finish(self, text: str, sampling: Sampling) -> Completion:
        """Return a completion in which each character is a token."""
        whole = text[: sampling.max_tokens]
        cut = min((whole.find(stop) for stop in sampling.stop if stop in whole), default=len(whole))
        ended: FinishReason = "end" if len(text) < sampling.max_tokens else "length"
        return Completion(whole[:cut], len(whole), "stop" if cut < len(whole) else ended)


class OneTooFew(Sound):
    def generate(self, prefixes: Any, n: int, sampling: Any, seed: int) -> Any:
        return super().generate(prefixes, n - 1, sampling, seed)


class NoTokenCounts(Sound):
    def finish(self, text: str, sampling: Sampling) -> Completion:
        return replace(super().finish(text, sampling), tokens=0)


class IgnoresTheLimit(Sound):
    def finish(self, text: str, sampling: Sampling) -> Completion:
        return super().finish(text, replace(sampling, max_tokens=64))


class UnknownReason(Sound):
    def finish(self, text: str, sampling: Sampling) -> Completion:
        return replace(super().finish(text, sampling), finish_reason="eos")  # type: ignore[arg-type]


class NoEnd(Sound):
    def finish(self, text: str, sampling: Sampling) -> Completion:
        return replace(super().finish(text, sampling), finish_reason="stop")


class AlwaysCutOff(Sound):
    def finish(self, text: str, sampling: Sampling) -> Completion:
        return replace(super().finish(text, sampling), finish_reason="length")


class Greedy(Sound):
    def one(self, prefix: Prefix, sampling: Sampling, seed: str) -> Completion:
        return super().one(prefix, sampling, "the same")


class RepeatsSamples(Sound):
    def generate(self, prefixes: Any, n: int, sampling: Any, seed: int) -> Any:
        return [super(RepeatsSamples, self).generate([prefix], n, sampling, seed)[0] for prefix in prefixes]


class IgnoresTheSeed(Sound):
    def generate(self, prefixes: Any, n: int, sampling: Any, seed: int) -> Any:
        return super().generate(prefixes, n, sampling, 0)


class Unseeded(Sound):
    calls = itertools.count()

    def generate(self, prefixes: Any, n: int, sampling: Any, seed: int) -> Any:
        return super().generate(prefixes, n, sampling, next(self.calls))


class RunsOverStops(Sound):
    def finish(self, text: str, sampling: Sampling) -> Completion:
        return super().finish(text, replace(sampling, stop=()))


class HidesStops(Sound):
    def finish(self, text: str, sampling: Sampling) -> Completion:
        completion = super().finish(text, sampling)
        return replace(completion, finish_reason="length") if sampling.stop else completion


class RepeatsThePrefix(Sound):
    def one(self, prefix: Prefix, sampling: Sampling, seed: str) -> Completion:
        completion = super().one(prefix, sampling, seed)
        return self.finish("\n\n".join([*prefix.steps, completion.text]), sampling)


class Restarts(Sound):
    def one(self, prefix: Prefix, sampling: Sampling, seed: str) -> Completion:
        return self.finish("\n\n".join([*prefix.steps[:1], f"then {seed}"]), sampling)


class IgnoresSteps(Sound):
    def one(self, prefix: Prefix, sampling: Sampling, seed: str) -> Completion:
        return super().one(Prefix(prefix.question), sampling, seed)


class OneSeedForAll(Sound):
    def generate_batch(self, requests: Any, sampling: Any) -> Any:
        return super().generate_batch([replace(each, seed=1) for each in requests], sampling)


BROKEN: dict[type[LLM], tuple[str, str]] = {
    OneTooFew: ("n completions of each prefix", "It returned 5 completions of a prefix instead of 6"),
    NoTokenCounts: ("token counts", "must count the completion's tokens, at most max_tokens = 64. Got 0"),
    IgnoresTheLimit: ("token counts", "at most max_tokens = 4. Got"),
    UnknownReason: ("finish reasons", "Its finish reason must be end.* Got 'eos'"),
    NoEnd: ("finish reasons", "Without stop strings, .* Got 'stop'"),
    AlwaysCutOff: ("finish reasons", "Only a completion of max_tokens tokens ends with 'length'"),
    Greedy: ("samples differ", "All 6 were equal for each question"),
    RepeatsSamples: ("samples differ", "got the same samples in the same order"),
    IgnoresTheSeed: ("the seed decides the texts", "Check that the seed is used"),
    Unseeded: ("the seed decides the texts", "The same seed must give the same texts"),
    RunsOverStops: ("stop strings", "must end before the stop string"),
    HidesStops: ("stop strings", "must have the finish_reason 'stop'"),
    RepeatsThePrefix: ("a prefix is continued", "18 of 18 repeat the prefix's steps"),
    Restarts: ("a prefix is continued", "start again with its first step|repeat the prefix's steps"),
    IgnoresSteps: ("a prefix is continued", "Check that they are used"),
    OneSeedForAll: ("a batch equals its requests", "6 of 6 texts differ"),
}


def test_a_sound_llm_passes() -> None:
    assert [result for result in run_checks(Sound()) if not result.passed] == []


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_llm_fails(broken: type[LLM]) -> None:
    name, message = BROKEN[broken]
    failed = {result.name: result.message for result in run_checks(broken()) if not result.passed}
    assert name in failed
    assert re.search(message, failed[name]), failed[name]


def test_every_check_of_llms_is_seen_to_fail() -> None:
    names = {result.name for result in run_checks(Sound())[len(DECLARATIONS) :]} - {"identity is json data"}
    assert names == {name for name, _ in BROKEN.values()}


class Sums(Dataset):
    """Ten questions in each of two splits."""

    splits = ("calibration", "test")

    def questions(self, split: str, count: int | None = None) -> list[Question]:
        if split not in self.splits or (count or 0) > 10:
            raise DataError("There is no such thing.")
        return [Question(f"{n}", f"{split}: {n}+1?", str(n + 1), 1 + n % 5) for n in range(10)][:count]


class TwinIds(Sums):
    def questions(self, split: str, count: int | None = None) -> list[Question]:
        return [replace(question, id="1") for question in super().questions(split, count)]


class ListOfLevels(Sums):
    def questions(self, split: str, count: int | None = None) -> list[Question]:
        wrong: Any = [9]
        return [replace(question, level=wrong) for question in super().questions(split, count)]


class Shuffled(Sums):
    def questions(self, split: str, count: int | None = None) -> list[Question]:
        found = super().questions(split)
        return found[-count:] if count and count <= 10 else super().questions(split, count)


class Leaky(Sums):
    def questions(self, split: str, count: int | None = None) -> list[Question]:
        return [replace(question, text=question.id) for question in super().questions(split, count)]


class Generous(Sums):
    def questions(self, split: str, count: int | None = None) -> list[Question]:
        return super().questions(split if split in self.splits else "test", count)


class KeyErrors(Sums):
    def questions(self, split: str, count: int | None = None) -> list[Question]:
        return super().questions({"calibration": "calibration", "test": "test"}[split], count)


class Strict(Sums):
    def grade(self, question: Question, trajectory: str) -> Any:
        return ("incorrect", None)


BROKEN_SETS: dict[type[Dataset], tuple[str, str]] = {
    TwinIds: ("every split has questions", "two questions with the same id"),
    ListOfLevels: ("every split has questions", "its level is a number or a word"),
    Shuffled: ("questions keep their order", "The first 5 questions of 'calibration'"),
    Leaky: ("splits are disjoint", "is in 'calibration' and 'test'"),
    Generous: ("unknown splits and counts are refused", "must raise DataError. It raised nothing"),
    KeyErrors: ("unknown splits and counts are refused", "must raise DataError. Got KeyError"),
    Strict: ("grading", "must be 'correct'. Got 'incorrect'"),
}


@pytest.mark.parametrize("broken", BROKEN_SETS)
def test_a_broken_data_set_fails(broken: type[Dataset]) -> None:
    name, message = BROKEN_SETS[broken]
    failed = {result.name: result.message for result in run_checks(broken()) if not result.passed}
    assert name in failed
    assert re.search(message, failed[name]), failed[name]


def test_every_check_of_data_sets_is_seen_to_fail() -> None:
    results = run_checks(Sums())
    assert all(result.passed for result in results)
    names = {result.name for result in results[len(DECLARATIONS) :]}
    assert names - {"identity is json data", "splits and grading"} == {
        name for name, _ in BROKEN_SETS.values()
    }
