"""The PRM `rlhflow`: RLHFlow's Llama-3.1 PRMs, which judge in a chat, step by step."""

from __future__ import annotations

from collections.abc import Sequence

from prmcal.registry.prms.answers import AnswerPRM

__all__ = ["RLHFlowPRM"]


class RLHFlowPRM(AnswerPRM):
    """RLHFlow's PRMs: a chat in which every step is a user's turn, and the assistant answers '+' or '-' to it.

    The first turn is the question, a space and the first step. Whatever the model would have answered to the earlier
    steps, it reads '+' there: that is how it was trained and how its authors score. The reward is the softmax of the
    two answers where the assistant's newest turn begins. Nothing of that format scores a bare question, t = 0; here it
    is a turn that holds the question alone.

    Parameters
    ----------
    checkpoint : str, default="RLHFlow/Llama3.1-8B-PRM-Deepseek-Data"
        ``nano:NAME``, a folder, or a hub id with or without ``@REVISION``; ``RLHFlow/Llama3.1-8B-PRM-Mistral-Data``
        has the same format.
    max_tokens : int, default=4096
        Longest prefix in tokens, the beginning of the assistant's turn included. A longer one is flagged, never cut.
    plus, minus : str, default="+", "-"
        What the model answers; `plus` is also what it reads as its earlier answers.
    dtype, device, batch_tokens, tree_tokens
        As in :class:`prmcal.TransformersPRM`.

    Notes
    -----
    The authors' code reads the logits three tokens before the end of a chat that ends in '+' and the end of the turn:
    the place before the '+', which is the last token here.
    """

    checkpoint = "RLHFlow/Llama3.1-8B-PRM-Deepseek-Data"

    def prefix_text(self, question: str, steps: Sequence[str]) -> str:
        """The chat up to where the newest answer begins."""
        first, *later = [step.strip() for step in steps] or [""]
        messages = [{"role": "user", "content": f"{question} {first}".strip()}]
        for step in later:
            messages += [{"role": "assistant", "content": self.plus}, {"role": "user", "content": step}]
        return str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))

    def tokenize(self, text: str) -> list[int]:
        """Token ids of the chat, whose template writes the special tokens itself."""
        return list(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
