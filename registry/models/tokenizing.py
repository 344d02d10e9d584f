"""Token ids of texts that each begin like the one before, such as the prefixes of a solution."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""The pattern of words of Qwen2. Llama 3's tokenizer has up to three digits in a word."""


class Tokenization:
    """Tokenizes texts. If a text begins like the one before, only the rest of it is tokenized, from a space on.

    The ids are the same as for the whole text. This is done only for tokenizers whose words end before every space
    behind another character, do not depend on what follows that space, and share no token. Other tokenizers get whole
    texts.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer: Any = tokenizer
        self._before: dict[bool, tuple[str, list[int], list[int]]] = {}
        """By whether it has special tokens: the text before, its ids and the ends of its tokens."""

    def __call__(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Return the token ids of a text."""
        text_before, ids, ends = self._before.get(add_special_tokens, ("", [], []))
        start = text.rfind(" ", 1, shared_length(text_before, text))
        while start > 0 and text[start - 1].isspace():
            start = text.rfind(" ", 1, start)
        if start > 0:
            rest = self._tokenizer._tokenizer.encode(text[start:], add_special_tokens=False)
            count = bisect_right(ends, start)
            ids = ids[:count] + rest.ids
            # Offsets may leave out white space. The first token has at least a space.
            ends = ends[:count] + [start + max(end, 1) for _, end in rest.offsets]
        else:
            encoded = self._tokenizer(text, add_special_tokens=add_special_tokens, verbose=False)
            ids = list(encoded["input_ids"])
            if not self._words_end_before_spaces:
                return ids
            ends = [end for _, end in encoded.encodings[0].offsets]
        self._before[add_special_tokens] = text, ids, ends
        return ids.copy()

    @cached_property
    def _words_end_before_spaces(self) -> bool:
        """True if it is certain that a text can be cut before a space behind another character."""
        if not getattr(self._tokenizer, "is_fast", False):
            return False
        backend = self._tokenizer._tokenizer
        model, normalizer, splitter = backend.model, backend.normalizer, backend.pre_tokenizer
        special_tokens = backend.get_added_tokens_decoder().values()
        with_special = self._tokenizer("a b", add_special_tokens=True)["input_ids"]
        plain = self._tokenizer("a b", add_special_tokens=False)["input_ids"]
        return (
            (type(model).__name__, model.dropout) == ("BPE", None)
            # NFC changes no space, and combines no character with a space behind it.
            and (normalizer is None or type(normalizer).__name__ == "NFC")
            and not any(token.lstrip or token.rstrip or token.single_word for token in special_tokens)
            and not any(re.search(r"\S ", token.content) for token in special_tokens)
            and with_special[-len(plain) :] == plain  # Nothing is added at the end.
            and splitter is not None
            and _splits_at_spaces(json.loads(splitter.__getstate__()), backend)
        )


def shared_length(left: Sequence[Any], right: Sequence[Any]) -> int:
    """Return the length of the longest common beginning of two sequences of the same type."""
    shared, end = 0, min(len(left), len(right))
    while shared < end:  # Bisection over slices is much faster than a loop over tokens.
        middle = (shared + end + 1) // 2
        if left[shared:middle] == right[shared:middle]:
            shared = middle
        else:
            end = middle - 1
    return shared


def _splits_at_spaces(splitter: dict[str, Any], backend: Any) -> bool:
    """True if the words of a tokenizer are of a kind that is known to end before spaces."""
    match splitter.get("pretokenizers", [splitter]):
        case [{"type": "Metaspace", "replacement": space}]:
            # The whole text may be one word. Then no token may have parts of two words in the usual sense.
            vocabulary, inside = backend.get_vocab(), re.compile(f"[^\\s{space}]{space}")
            return not backend.model.ignore_merges and space in vocabulary and not any(map(inside.search, vocabulary))
        case [{"type": "ByteLevel", "use_regex": True}] | [
            {"type": "Digits"},
            {"type": "ByteLevel", "use_regex": True},
        ]:
            return True
        case [{"type": "Split", "behavior": "Isolated", "invert": False, "pattern": pattern}, {"type": "ByteLevel"}]:
            return str(pattern.get("Regex")).replace("{1,3}", "") == _WORDS
    return False
