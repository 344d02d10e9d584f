"""The next step of a search ends where a step of the whole text ends."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from prmcal import LLM, Completion, GenerationRequest, Prefix, Sampling
from prmcal.harness.jobs.stepping import in_steps, next_steps
from prmcal.steps import join_steps, split_steps

SCRIPT = """Okay, x is three. So far so good.

Then y is four. Wait, is it?

It is. But z is not.
</think>

The answer is short.

It is \\boxed{5}."""


class Scripted(LLM):
    """It knows one text by heart. A token is a word."""

    def __init__(self, opened: bool) -> None:
        self.opened = opened

    def opens_thought(self, question: str) -> bool:
        return self.opened

    def generate(self, prefixes: Sequence[Prefix], n: int, sampling: Sampling, seed: int) -> list[list[Completion]]:
        return [[self._rest(prefix, sampling)] * n for prefix in prefixes]

    def _rest(self, prefix: Prefix, sampling: Sampling) -> Completion:
        known = join_steps(prefix.steps).split()
        rest = SCRIPT if self.opened else f"<think>\n{SCRIPT}"
        if self.opened:
            known = known[1:]  # the tag, which is in the prompt
        for word in known:
            assert rest.lstrip().startswith(word)
            rest = rest.lstrip().removeprefix(word)
        rest = rest.lstrip()
        cut = min((rest.find(each) for each in sampling.stop if each in rest), default=len(rest))
        text = rest[:cut]
        return Completion(text, max(1, len(text.split())), "stop" if cut < len(rest) else "end")


def searched(llm: LLM) -> list[str]:
    """The texts that a search gets, one step after the other."""
    prefix, found = Prefix("q"), list[str]()
    for _ in range(30):
        ((drawn,),) = next_steps(llm, [GenerationRequest(prefix, 1, 7)], Sampling(max_tokens=500))
        found += split_steps(drawn.text)
        prefix = Prefix("q", prefix.steps + split_steps(drawn.text))
        if drawn.finish_reason != "stop":
            return found
    raise AssertionError("it does not end")


@pytest.mark.parametrize("opened", [True, False])
def test_the_steps_of_a_search_are_those_of_the_whole_text(opened: bool) -> None:
    llm = Scripted(opened)
    (whole,) = in_steps(llm, Prefix("q"), llm.generate([Prefix("q")], 1, Sampling(), 0)[0])
    assert searched(llm) == list(split_steps(whole.text))
