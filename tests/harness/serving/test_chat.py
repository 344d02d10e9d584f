"""``POST /v1/chat/completions``: questions are answered in OpenAI's form, and OpenAI's own client asks them."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'serve' is not installed")
from openai import BadRequestError, InternalServerError, OpenAI

from prmcal import CalibratedPRM
from tests.harness.serving.clients import QUESTION, ask, chat
from tests.served_run import GONE, NAN


def test_a_completion_is_the_answer_of_the_calibrated_prm(openai: OpenAI, here: CalibratedPRM) -> None:
    (model,) = openai.models.list().data
    messages: Any = chat()
    extra = {"max_samples": 3, "target": 0.9999, "reference": "51"}
    found: Any = openai.chat.completions.create(
        model=model.id, messages=messages, seed=2, temperature=1.0, max_tokens=5000, extra_body=extra
    )
    (expected,) = here.solve_many([QUESTION], ["51"], max_samples=3, seed=2, target=0.9999)
    (choice,) = found.choices
    assert expected.chosen is not None and expected.spent.samples > 1
    assert choice.message.content == expected.trajectories[expected.chosen].text
    assert choice.finish_reason == "stop" and choice.message.refusal is None
    assert choice.prmcal["answer"] == expected.answer and choice.prmcal["correct"] == expected.correct
    assert [each["text"] for each in choice.prmcal["trajectories"]] == [
        each.text for each in expected.trajectories
    ]
    assert choice.prmcal["probability"] == pytest.approx(expected.probability, abs=1e-4)
    assert found.usage.completion_tokens == expected.spent.generated_tokens
    assert found.usage.prompt_tokens == here.prompt_tokens(QUESTION) > 10
    assert found.usage.prmcal["samples"] == expected.spent.samples
    unsure = ask(openai, max_samples=3, seed=2, abstain_below=0.9999)
    assert unsure.message.content is None and "its probability is below 0.9999" in unsure.message.refusal
    assert unsure.prmcal["abstained"] and unsure.prmcal["answer"] is None


def test_a_stream_has_the_steps_and_then_the_chosen_text(openai: OpenAI) -> None:
    messages: Any = chat()
    chunks: list[Any] = list(
        openai.chat.completions.create(
            model="any",
            messages=messages,
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"max_samples": 2, "target": 0.9999},
        )
    )
    first, *others, text, end = [each.choices[0] for each in chunks]
    steps = [each.step for each in others]
    assert first.delta.role == "assistant" and steps[0]["step"] == 0
    assert not any(each.delta.content for each in [first, *others])
    for place, drawn in enumerate(end.prmcal["trajectories"]):
        own = [each["text"] for each in steps if each["trajectory"] == place and each["step"]]
        assert "\n\n".join(own) == drawn["text"]
    assert text.delta.content == end.prmcal["trajectories"][end.prmcal["chosen"]]["text"]
    assert end.finish_reason == "stop" and len({each.id for each in chunks}) == 1
    assert chunks[-1].usage.completion_tokens == end.prmcal["spent"]["generated_tokens"] > 0


def test_a_search_streams_its_answer_without_steps(openai: OpenAI) -> None:
    messages: Any = chat()
    extra = {"strategy": "beam search", "max_samples": 8}
    chunks = openai.chat.completions.create(model="any", messages=messages, stream=True, extra_body=extra)
    first, text, end = [each.choices[0] for each in chunks]
    solution: Any = end.prmcal  # type: ignore[attr-defined]
    assert first.delta.content == "" and end.finish_reason in ("stop", "length")
    assert text.delta.content == solution["trajectories"][0]["text"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"messages": chat("")}, "question: it is empty"),
        ({"target": 1}, "target: Input should be less than 1. Got 1"),
        ({"max_samples": 0}, "max_samples: "),
        ({"max_samples": 257}, "max_samples: the limit of this server is 256. Got 257."),
        ({"strategy": "best-of-m"}, "best-of-m"),
        ({"strategy": "best-of-n + IAS", "level": 0.123}, "0.123"),
        ({"messages": chat(NAN)}, "not finite"),
        ({"messages": chat(f"{GONE}.")}, "The server of the PRM does not answer."),
        ({"messages": [{"role": "system", "content": "Be short."}, *chat()]}, "Got system, user."),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages.0.content"),
        ({"tools": [{"type": "function"}]}, "tools: this server cannot follow it. Leave it out."),
        ({"temperature": 0}, "temperature: this server cannot follow it. Leave it out, or give 1.0."),
        ({"max_tokens": 5}, "or give 256. Got 5."),
        ({"n": 2}, "n: this server cannot follow it. Leave it out, or give 1. Got 2."),
        ({"max_sample": 3}, "max_sample: this server cannot follow it."),
    ],
)
def test_what_cannot_be_answered_has_a_reason(
    openai: OpenAI, body: dict[str, Any], message: str, stream: bool
) -> None:
    messages: Any = chat()
    kind = InternalServerError if NAN in str(body) or GONE in str(body) else BadRequestError
    with pytest.raises(kind) as refused:
        openai.chat.completions.create(
            model="any", messages=messages, stream=stream, extra_body={"user": "me", "tools": [], **body}
        )
    assert message in refused.value.message
