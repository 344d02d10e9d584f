"""Find the first stop string in a completion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["StopStrings"]


class StopStrings:
    """Finds the first stop string in a completion's tokens.

    Decoding every row after every token would take longer than the forward pass of a small model. So a completion is
    decoded only if its newest token contains the last character of a stop string.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, stop: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._stop = tuple(stop)
        self._can_end: dict[int, bool] = {}

    def __call__(self, tokens: list[int]) -> bool:
        """Whether the tokens contain a stop string. Call it after every token of a completion."""
        if not self._stop:
            return False
        newest = tokens[-1]
        if newest not in self._can_end:
            # The token is repeated, since some tokenizers drop the space before the first word of a text.
            shown = self._decode([newest, newest])
            self._can_end[newest] = "\ufffd" in shown or any(stop[-1] in shown for stop in self._stop)
        return self._can_end[newest] and any(stop in self._decode(tokens) for stop in self._stop)

    def cut(self, tokens: list[int]) -> str:
        """Return the text of a completion before its first stop string, without special tokens."""
        text = self._decode(tokens)
        return text[: min((text.find(stop) for stop in self._stop if stop in text), default=len(text))]

    def _decode(self, tokens: list[int]) -> str:
        return str(
            self._tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        )
