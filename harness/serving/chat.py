"""OpenAI's form of an LLM: the question of a chat, and its answer as a reply or as a stream.

The LLM draws as many samples as the question needs. The message of the reply is the chosen solution. What it cost and
the probability that it is right are in fields ``prmcal``, which clients of OpenAI pass on.

The first chunks of a stream are the steps of all samples, as they are generated: they have no text, and a field
``step``. It is known at the end which sample is chosen, so its text is one chunk. The last one has the solution.
"""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict
from typing import Any

from pydantic import ConfigDict, Field

from prmcal.errors import PrmcalError
from prmcal.harness.inference.asking import Settings
from prmcal.harness.inference.results import Solution, Step
from prmcal.harness.serving import bodies
from prmcal.registry.contracts.data import Sampling

MEDIA_TYPE = "text/event-stream"


class ChatBody(Settings):
    """A chat with one question. What is left out is as in the grid of the run."""

    model_config = ConfigDict(extra="allow")

    messages: list[bodies.Message] = Field(
        description="One message, with the role `user`: the question.",
        examples=[[{"role": "user", "content": bodies.QUESTION}]],
    )
    reference: str | None = Field(
        default=None,
        description="The right answer, if it is known: for the alarm, and for `correct` in the reply.",
    )
    stream: bool | None = Field(default=False, description="Whether the reply is a stream of chunks.")

    def question(self, sampling: Sampling) -> str:
        """Return the question. Raise PrmcalError if the chat has more, or a field that cannot be followed."""
        given = dict(self.model_extra or {})
        limits = dict.fromkeys(("max_tokens", "max_completion_tokens"), sampling.max_tokens)
        for name, limit in limits.items():
            if isinstance(given.get(name), int) and given[name] > limit:
                del given[name]  # It would cut no sample.
        sampled = {"temperature": sampling.temperature, "top_p": sampling.top_p, **limits}
        bodies.check_unknown(given, {**_FOLLOWED, **sampled})
        if [each.role for each in self.messages] != ["user"]:
            roles = ", ".join(each.role for each in self.messages) or "none"
            raise PrmcalError(
                "messages: there must be one message, with the role 'user'. Probabilities hold for the prompt of the "
                f"calibration, which has a system prompt of its own and no other turns. Got {roles}."
            )
        return self.messages[0].text

    def settings(self) -> dict[str, Any]:
        """Return the settings that are given."""
        return self.model_dump(include=set(Settings.model_fields), exclude_unset=True)


_FOLLOWED = {
    **dict.fromkeys(("frequency_penalty", "presence_penalty", "top_logprobs"), 0),
    "modalities": ["text"],
    "n": 1,
    "response_format": {"type": "text"},
}
"""The value that is followed of some fields of OpenAI."""


class Answering:
    """A chat that is answered by a `model`, and the tokens of its prompt."""

    def __init__(self, model: str, prompt_tokens: int) -> None:
        self._head, self._prompt_tokens = bodies.head(model), prompt_tokens

    def reply(self, solution: Solution) -> dict[str, Any]:
        """Return the reply with a solution."""
        message = {"role": "assistant", **_message(solution)}
        choice = {"index": 0, "message": message, "logprobs": None, **_end(solution)}
        return {**self._head, "object": "chat.completion", "choices": [choice], **self._usage(solution)}

    async def chunks(
        self, first: Step | Solution, rest: AsyncIterator[Step | Solution]
    ) -> AsyncIterator[str]:
        """Yield the events of a stream. The caller has waited for the first step, or for the solution of a search."""
        yield self._chunk({"role": "assistant", "content": ""})
        event: Step | Solution | None = first
        try:
            while event is not None:
                if isinstance(event, Step):
                    yield self._chunk({}, step=asdict(event))
                elif event.error:
                    yield line(bodies.described(502, event.error))
                else:
                    yield self._chunk(_message(event))
                    yield self._chunk({}, self._usage(event), **_end(event))
                    yield "data: [DONE]\n\n"
                event = await anext(rest, None)
        except Exception as error:
            yield line(bodies.problem(error))

    def _usage(self, solution: Solution) -> dict[str, Any]:
        prompt, generated = self._prompt_tokens, solution.spent.generated_tokens
        tokens = {"prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": prompt + generated}
        return {"usage": {**tokens, "prmcal": asdict(solution.spent)}}

    def _chunk(self, delta: Mapping[str, Any], usage: Mapping[str, Any] = {}, **more: Any) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None, **more}
        return line({**self._head, "object": "chat.completion.chunk", "choices": [choice], **usage})


def line(data: Mapping[str, Any]) -> str:
    """Return an event of a stream."""
    return f"data: {json.dumps(data, allow_nan=False)}\n\n"


def _message(solution: Solution) -> dict[str, str | None]:
    """Return the chosen solution, or why the answer is withheld."""
    if solution.abstained or solution.chosen is None:
        return {"content": None, "refusal": solution.reason}
    return {"content": solution.trajectories[solution.chosen].text, "refusal": None}


def _end(solution: Solution) -> dict[str, Any]:
    chosen = solution.trajectories[solution.chosen or 0]
    reason = "length" if chosen.finish_reason in ("length", "thought") else "stop"
    return {"finish_reason": reason, "prmcal": asdict(solution)}
