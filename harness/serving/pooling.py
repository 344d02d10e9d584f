"""vLLM's form of a PRM: the trajectories of a request to ``/pooling``, and the rows of its reply."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from prmcal.errors import PrmcalError
from prmcal.harness.inference.results import PrefixRewards
from prmcal.harness.inference.scoring import QuestionAndSteps
from prmcal.registry.contracts.models import PRM
from prmcal.steps import split_steps

TokenID = Annotated[int, Field(ge=0, lt=2**31)]
_LEAST = 1e-9
"""The smallest probability whose log is returned."""


class Message(BaseModel):
    """A message of a chat."""

    role: str
    content: str


class PoolingBody(BaseModel):
    """Trajectories to score: `input` or `messages`. Fields that would change the reply of other servers are refused."""

    model_config = ConfigDict(extra="forbid")

    input: str | list[TokenID] | list[str | list[TokenID]] | None = Field(
        default=None, description="One trajectory or a list of them, each a text or token ids in the PRM's own form."
    )
    messages: list[Message] | None = Field(
        default=None,
        description="One trajectory as a chat: the user's question, and the assistant's steps, with the PRM's marker "
        "behind each or blank lines between them. The PRM has a system prompt of its own.",
    )
    use_activation: bool | None = Field(
        default=None, description="With false, rows are logits whose softmax are the probabilities."
    )
    model: str | None = Field(default=None, description="Not read: one model is served.")
    task: Literal["token_classify"] | None = None
    encoding_format: Literal["float"] | None = None


class Form:
    """The texts and the outputs of a PRM, as its clients know them.

    Clients of Qwen2.5-Math-PRM send a chat as messages, as text or as token ids, with a marker behind each step. They
    read a row for each marker, with the probabilities of a wrong and of a right answer.
    """

    def __init__(self, prm: PRM) -> None:
        from prmcal.registry.prms.transformers import TransformersPRM

        form = getattr(prm, "form", prm)  # A PRM behind a server has the form of another one.
        self._prm = form if isinstance(form, TransformersPRM) else None
        self._marker = self._prm.marker.strip() if self._prm else ""
        self._outputs = self._prm.outputs() if self._prm else 0

    def read(self, body: PoolingBody) -> list[QuestionAndSteps]:
        """Return the questions and the steps of a request. Raise PrmcalError for other forms."""
        if body.messages is not None:
            return [self._of_messages(body.messages)]
        if not body.input:
            raise PrmcalError("input: Field required. Give at least one trajectory in 'input' or 'messages'.")
        is_single = isinstance(body.input, str) or isinstance(body.input[0], int)
        rows: Any = [body.input] if is_single else body.input
        return [self._of_text(row) for row in rows]

    def _of_messages(self, messages: Sequence[Message]) -> QuestionAndSteps:
        turns = [message for message in messages if message.role != "system"]
        if [turn.role for turn in turns] not in (["user"], ["user", "assistant"]):
            raise PrmcalError("messages: a trajectory has one message of the user, and one of the assistant.")
        question, solution, *_ = *(turn.content for turn in turns), ""
        return question, self._steps(solution) or split_steps(solution)

    def _of_text(self, row: str | list[int]) -> QuestionAndSteps:
        opening, between = self._around
        if self._prm is None or not self._marker or not between.strip():
            raise PrmcalError("input: texts of this PRM do not show where the question ends. Send 'messages'.")
        text = row if isinstance(row, str) else str(self._prm.tokenizer.decode(row))
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
        steps = [step.strip() for step in solution.split(self._marker)[:-1]] if self._marker else []
        return [] if steps == [""] else steps

    @cached_property
    def _around(self) -> tuple[str, str]:
        """The last line before the question, and the text between the question and the first step."""
        text = self._prm.prefix_text("<question>", ["<step>"]) if self._prm else ""
        text_before, _, text_after = text.partition("<question>")
        return text_before[text_before.rstrip().rfind("\n") + 1 :], text_after.partition("<step>")[0]

    def row(self, place: int, rewards: PrefixRewards, logits: bool) -> dict[str, Any]:
        """Return the rows of a trajectory for a client: one for each step, or one for the bare question.

        It has the calibrated probabilities of a wrong and of a right answer, or their logs with `logits`, in the order
        of the PRM's own outputs. A PRM with one output has the probability of a right answer, or its log-odds. The
        field ``prmcal`` has the PRM's own rewards and all levels.

        Raises a PrmcalError if the trajectory is too long for the PRM.
        """
        if rewards.point[-1] is None:
            raise PrmcalError(f"The trajectory {place} is too long for the PRM. Send fewer steps.")
        medians = [median for median in rewards.point[1:] or rewards.point if median is not None]
        data = [self._outputs_of(median, logits) for median in medians]
        return {"index": place, "object": "pooling", "data": data, "prmcal": asdict(rewards)}

    def _outputs_of(self, reward: float, logits: bool) -> list[float]:
        row = [1 - reward, reward]
        if logits:
            row = [math.log(max(probability, _LEAST)) for probability in row]
        if self._outputs == 1:
            return [row[1] - row[0]] if logits else [reward]
        return row[::-1] if self._right_first else row

    @cached_property
    def _right_first(self) -> bool:
        """True if the first of two outputs is for right steps, as with Math-Shepherd."""
        if self._prm is None or self._outputs != 2:
            return False
        import torch

        return float(self._prm.log_odds(torch.tensor([1.0, 0.0]))) > 0
