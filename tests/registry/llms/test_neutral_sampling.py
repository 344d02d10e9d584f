"""A server is asked once whether it takes values that turn its own sampling off."""

from __future__ import annotations

import logging

import pytest

from prmcal import Prefix, Sampling
from prmcal.registry.llms.prompts import Templated
from prmcal.registry.plugins import llms
from tests.registry.llms.completions_server import serving

PLAIN = "{{ messages | map(attribute='content') | join('|') }}\n"
SHOTS = [{"question": "1+1?", "solution": "2"}]


@pytest.mark.parametrize("takes", [True, False])
def test_a_server_is_told_to_add_no_sampling_if_it_takes_that(takes: bool, caplog: pytest.LogCaptureFixture) -> None:
    with serving() as server, caplog.at_level(logging.WARNING):
        server.takes_top_k = takes
        llm = llms.create("openai", base_url=server.url, model="m", chat_template=PLAIN)
        for seed in range(2):
            llm.generate([Prefix("2+2?")], 2, Sampling(max_tokens=9), seed)
    asked = [each for each in server.requests if each["max_tokens"] == 9]
    assert len(asked) == 4
    assert len(server.requests) == 4 + takes
    assert [each.get("top_k") for each in asked] == [-1 if takes else None] * 4
    assert [each.get("min_p") for each in asked] == [0.0 if takes else None] * 4
    assert len([each for each in caplog.messages if "top_k" in each]) == 1


def test_a_template_keeps_its_last_line_end_and_shows_examples() -> None:
    llm = llms.create("openai", base_url="http://localhost/v1", model="m", chat_template=PLAIN, few_shot=SHOTS)
    assert isinstance(llm, Templated) and llm.prompt("2+2?") == "1+1?|2|2+2?\n"
    chat = llms.create("openai-chat", base_url="http://localhost/v1", model="m", continues="none", few_shot=SHOTS)
    assert [each["content"] for each in chat.prompt_fields(Prefix("2+2?"))["messages"]] == ["1+1?", "2", "2+2?"]  # type: ignore[attr-defined]
    for name, arguments in (("openai", {"chat_template": PLAIN}), ("openai-chat", {"continues": "none"})):
        server = {"base_url": "http://localhost/v1", "model": "m", **arguments}
        plain = llms.create(name, **server).identity()
        assert "few_shot" not in str(plain)
        assert plain != llms.create(name, **server, few_shot=SHOTS).identity()


def test_a_template_that_drops_examples_is_refused() -> None:
    from prmcal.errors import InvalidArgumentsError

    last = "{{ messages[-1]['content'] }}"
    with pytest.raises(InvalidArgumentsError, match="leaves out example 1 of 'few_shot'"):
        llms.create("openai", base_url="http://localhost/v1", model="m", chat_template=last, few_shot=SHOTS)
