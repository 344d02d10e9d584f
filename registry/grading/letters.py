"""The letters of the options of multiple-choice questions."""

import re
from collections.abc import Sequence

from prmcal.registry.grading.latex import without_wrappers
from prmcal.registry.grading.units import PATTERNS


def letters_of(text: str, options: Sequence[str] = ()) -> frozenset[str]:
    """Return the letters of the options that a text names, or no letters.

    "B)", "(B) 42", "Option B", "b" and the text of option B name B. "A, C" and "AC" name A and C.
    """
    text = _plain(text)
    texts = {_folded(option): chr(ord("A") + place) for place, option in enumerate(options)}
    if _folded(text) in texts:
        return frozenset(texts[_folded(text)])
    last_letter = max(texts.values(), default="J")
    if PATTERNS["several letters"].fullmatch(text):
        letters = frozenset(re.findall(r"(?<![a-z])[A-J](?![a-z])", text.upper() if text.islower() else text))
    elif option := PATTERNS["option"].fullmatch(text):
        letters = frozenset((option[1] or option[2]).upper())
        if texts.get(_folded(option[3]), *letters) not in letters:  # "(B) 42", where 42 is option C
            return frozenset()
    else:
        return frozenset()
    return letters if max(letters) <= last_letter else frozenset()


def same_option(answer: str, reference: str) -> bool | None:
    """Return whether an answer names the letters that a reference consists of. Return None if it has other parts."""
    plain_answer, plain_reference = _plain(answer), _plain(reference)
    if PATTERNS["single letter"].fullmatch(plain_reference):
        letters = letters_of(answer)
        return letters == letters_of(reference) if letters else None
    lists = [bool(PATTERNS["several letters"].fullmatch(text)) for text in (plain_answer, plain_reference)]
    if not all(lists) or not re.search("[,; ]", plain_answer + plain_reference):  # AB and BA alone are names of a line.
        return None
    return letters_of(answer) == letters_of(reference)


def _plain(text: str) -> str:
    """Return a text without the marks of LaTeX and Markdown around it."""
    text = re.sub(r"\\text\s*\{([^{}]*)\}", r"\1", without_wrappers(text))
    return re.sub(r"~|\\[ ,;]|\\q?quad", " ", text).strip(" .,$*")


def _folded(text: str) -> str:
    return " ".join(text.strip(" .*").split()).casefold()
