"""The forms of requests and replies: OpenAI's of an LLM, and vLLM's of a PRM.

A chat has one question. The LLM draws as many samples as it needs, and the message of the reply is the chosen solution.
What it cost and the probability that it is right are in fields ``prmcal``, which clients of OpenAI pass on. The first
chunks of a stream are the steps of all samples, as they are generated: they have no text, and a field ``step``. It is
known at the end which sample is chosen, so its text is one chunk. The last one has the solution.

Clients of Qwen2.5-Math-PRM send a chat to ``/pooling`` as messages, as text or as token ids, with a marker behind each
step. They read a row for each marker, with the probabilities of a wrong and of a right answer.
"""

import json
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from prmcal.errors import PrmcalError
from prmcal.harness.inference.asking import Level, Settings, Target
from prmcal.harness.inference.results import PrefixRewards, Solution, Step
from prmcal.harness.serving import bodies
from prmcal.registry.contracts.data import Sampling
from prmcal.steps import split_steps

if TYPE_CHECKING:
    from prmcal.registry.prms.transformers import TransformersPRM

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
        bodies.check_unknown(given, {**_FOLLOWED_BY_CHAT, **sampled})
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


_FOLLOWED_BY_CHAT = {
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


FOLLOWED_BY_POOLING = {"task": "token_classify", "encoding_format": "float"}
"""The value that is followed of some fields of vLLM."""

TokenID = Annotated[int, Field(ge=0, lt=2**31)]


class PoolingBody(BaseModel):
    """Trajectories to score: `input` or `messages`."""

    model_config = ConfigDict(extra="allow")

    input: str | list[TokenID] | list[str | list[TokenID]] | None = Field(
        default=None,
        description="One trajectory or a list of them, each a text or token ids in the PRM's own form.",
    )
    messages: list[bodies.Message] | None = Field(
        default=None,
        description="One trajectory as a chat: the user's question, and the assistant's steps, with the PRM's marker "
        "behind each or blank lines between them. The PRM has a system prompt of its own.",
        examples=[
            [{"role": "user", "content": bodies.QUESTION}, {"role": "assistant", "content": "a) 67-4=63"}]
        ],
    )
    use_activation: bool | None = Field(
        default=None, description="With false, rows are logits whose softmax are the probabilities."
    )
    target: Target = 0.99
    level: Level | None = None


class Form:
    """What clients know of the PRM: its texts and its outputs. `prm` is None if they know nothing."""

    def __init__(self, prm: "TransformersPRM | None") -> None:
        self._prm = prm
        self._marker = prm.marker.strip() if prm else ""
        self._outputs = prm.outputs() if prm else 0

    def read(self, body: PoolingBody) -> list[tuple[str, Sequence[str]]]:
        """Return the questions and the steps of a request. Raise PrmcalError if they have another form."""
        if body.messages is not None:
            return [self._of_messages(body.messages)]
        if not body.input:
            raise PrmcalError("input: Field required. Give at least one trajectory in 'input' or 'messages'.")
        rows: Any = (
            [body.input] if isinstance(body.input, str) or isinstance(body.input[0], int) else body.input
        )
        return [self._of_text(each) for each in rows]

    def _of_messages(self, messages: Sequence[bodies.Message]) -> tuple[str, Sequence[str]]:
        turns = [each for each in messages if each.role != "system"]
        if [each.role for each in turns] not in (["user"], ["user", "assistant"]):
            raise PrmcalError("messages: a trajectory has one message of the user, and one of the assistant.")
        question, solution, *_ = *(each.text for each in turns), ""
        return question, self._steps(solution) or split_steps(solution)

    def _of_text(self, given: str | list[int]) -> tuple[str, Sequence[str]]:
        opening, between = self._around
        if self._prm is None or not self._marker or not between.strip():
            raise PrmcalError(
                "input: the question and the steps cannot be told apart in a text of this PRM. Send 'messages'."
            )
        text = given if isinstance(given, str) else str(self._prm.tokenizer.decode(given))
        before, _, solution = text.partition(between)
        if opening in before and self._marker in solution:
            return before.rpartition(opening)[2], self._steps(solution)
        if between in text or self._marker in text:
            raise PrmcalError(
                f"input: a text must have {opening!r}, the question, {between!r}, and the steps with {self._marker!r} "
                "behind each. Or send 'messages'."
            )
        return text, ()

    def _steps(self, solution: str) -> list[str]:
        """Return the steps before each marker. A marker without steps stands for the bare question."""
        steps = [each.strip() for each in solution.split(self._marker)[:-1]] if self._marker else []
        return [] if steps == [""] else steps

    @cached_property
    def _around(self) -> tuple[str, str]:
        """The last line before the question, and what is between it and the first step."""
        text = self._prm.prefix_text("<question>", ["<step>"]) if self._prm else ""
        before, _, rest = text.partition("<question>")
        return before[before.rstrip().rfind("\n") + 1 :], rest.partition("<step>")[0]

    def row(self, place: int, found: PrefixRewards, logits: bool) -> dict[str, Any]:
        """Return what a client reads for a trajectory: a row for each step, or one for the bare question without steps.

        It has the calibrated probabilities of a wrong and of a right answer, or their logs with `logits`, in the order
        of the PRM's own outputs. A PRM with one output has the probability of a right answer, or its log-odds.

        Raises a PrmcalError if the trajectory is too long for the PRM.
        """
        if found.point[-1] is None:
            raise PrmcalError(f"The trajectory {place} is too long for the PRM. Send fewer steps.")
        rewards = found.point[1:] or found.point
        data = [self._outputs_of(each, logits) for each in rewards if each is not None]
        return {"index": place, "object": "pooling", "data": data, "prmcal": asdict(found)}

    def _outputs_of(self, reward: float, logits: bool) -> list[float]:
        row = [1 - reward, reward]
        if logits:
            row = [math.log(max(each, _LEAST)) for each in row]
        if self._outputs == 1:
            return [row[1] - row[0]] if logits else [reward]
        return row[::-1] if self._right_first else row

    @cached_property
    def _right_first(self) -> bool:
        """True if the first of two outputs is that of right steps, as for Math-Shepherd."""
        if self._prm is None or self._outputs != 2:
            return False
        import torch

        return float(self._prm.log_odds(torch.tensor([1.0, 0.0]))) > 0


_LEAST = 1e-9
"""The smallest probability of which the log is told."""
