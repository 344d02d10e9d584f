"""The PRM `rlhflow`: RLHFlow's Llama-3.1 PRMs, which judge the steps in a chat."""

from __future__ import annotations

from collections.abc import Sequence

from prmcal.registry.models.chats import chat_text
from prmcal.registry.prms.answers import AnswerPRM

__all__ = ["RLHFlowPRM"]


class RLHFlowPRM(AnswerPRM):
    """RLHFlow's PRMs: a chat in which each step is a user's turn, and the assistant answers '+' or '-'.

    The first turn is the question, a space and the first step. The answers to all earlier steps are '+' in the chat,
    whatever the model would have answered, as in the training and in the authors' code. The reward is the softmax of
    the two answers at the beginning of the assistant's last turn. The format does not define a score for the bare
    question, t = 0. Here it is a chat with the question as the only turn.

    Parameters
    ----------
    checkpoint : str, default="RLHFlow/Llama3.1-8B-PRM-Deepseek-Data"
        ``nano:NAME``, a folder, or a hub id with or without ``@REVISION``. ``RLHFlow/Llama3.1-8B-PRM-Mistral-Data``
        has the same format.
    max_tokens : int, default=4096
        Maximum length of a prefix in tokens, with the beginning of the assistant's turn. A longer prefix is flagged,
        never cut.
    plus, minus : str, default="+", "-"
        The answers of the model. `plus` is also the answer to all earlier steps.
    dtype, device, batch_tokens, tree_tokens, read_thoughts
        As in :class:`prmcal.TransformersPRM`.

    Notes
    -----
    In the authors' code, the chat ends with '+' and the end of the turn, and the logits are read three tokens before
    the end. This is the position before the '+', which is the last token here.
    """

    citation = "Xiong et al. (2024), github.com/RLHFlow/RLHF-Reward-Modeling"
    checkpoint = "RLHFlow/Llama3.1-8B-PRM-Deepseek-Data"

    def prefix_text(self, question: str, steps: Sequence[str]) -> str:
        """Return the chat up to the beginning of the last answer."""
        first, *later = [step.strip() for step in steps] or [""]
        messages = [{"role": "user", "content": f"{question} {first}".strip()}]
        for step in later:
            messages += [{"role": "assistant", "content": self.plus}, {"role": "user", "content": step}]
        return chat_text(self.tokenizer, messages)

    def tokenize(self, text: str) -> list[int]:
        """Return the token ids of the chat. Its template contains the special tokens."""
        return list(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
