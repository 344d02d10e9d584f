"""Where a completion ends: at the first of some stop strings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["StopStrings"]


class StopStrings:
    """Finds the first stop string in a completion's tokens.

    Decoding every row after every token would cost more than a small model's forward pass, so a completion is
    decoded only when its newest token holds the last character of a stop string.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, stop: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._stop = tuple(stop)
        self._can_end: dict[int, bool] = {}

    def __call__(self, tokens: list[int]) -> bool:
        """Whether a completion that has just got its newest token holds a stop string."""
        if not self._stop:
            return False
        newest = tokens[-1]
        if newest not in self._can_end:
            # Twice, since some tokenizers drop the space before a text's first word.
            shown = self._decode([newest, newest])
            self._can_end[newest] = "\ufffd" in shown or any(stop[-1] in shown for stop in self._stop)
        return self._can_end[newest] and any(stop in self._decode(tokens) for stop in self._stop)

    def cut(self, tokens: list[int]) -> str:
        """The text of a completion before its first stop string, special tokens left out."""
        text = self._decode(tokens)
        return text[: min((text.find(stop) for stop in self._stop if stop in text), default=len(text))]

    def _decode(self, tokens: list[int]) -> str:
        return str(
            self._tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        )
