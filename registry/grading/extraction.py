r"""The final answer of a solution: where it can stand, and how it is found there."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field

from prmcal.registry.grading.units import PATTERNS, compiled
from prmcal.steps import behind_thought, without_marks

BOXED = "boxed"
WAYS = ("boxed", "phrase", "hashes", "last number", "whole")
MARKED = ("boxed", "hashes", "phrase")
"""The default for texts of unknown habits, in this order: ways that no other text looks like."""

_OPEN = ("last number", "whole")
"""Ways with which every text has an answer, so that none of its parts is known to be the final one."""


def _checked(answers: Any) -> Any:
    for way in ways_of(answers):
        if isinstance(way, Mapping):
            if len(way) != 1 or not {*way} <= {"pattern", "phrase"}:
                raise ValueError("a mapping has one entry, 'pattern' or 'phrase'")
            try:
                re.compile(way.get("pattern", ""))
            except re.error as error:
                raise ValueError(f"'pattern' is no regular expression: {error}") from error
        elif way not in WAYS:
            raise ValueError(f"there is no way {way!r}")
    if not ways_of(answers):
        raise ValueError("the list is empty")
    return answers


Way = str | Mapping[str, str]
Ways = Way | Sequence[Way]

Answers = Annotated[
    str | dict[str, str] | tuple[str | dict[str, str], ...],
    AfterValidator(_checked),
    Field(
        description="boxed, phrase, hashes, last number, whole, {pattern: a regular expression} or {phrase: words "
        "before the answer}, or a list of these, which are tried in order"
    ),
]
"""The annotation of the argument. The page "How answers are compared" says what each way finds."""


class Answer(NamedTuple):
    """A final answer, and the way in which it was found: one of `WAYS`, or "pattern"."""

    text: str
    way: str


def ways_of(answers: Ways) -> Sequence[Way]:
    """Return the ways of an argument in their order."""
    return [answers] if isinstance(answers, str | Mapping) else answers


def find_answer(text: str, answers: Ways = BOXED, whole: bool = True) -> Answer | None:
    """Return the final answer of a text, a solution or its beginning, or None if there is none.

    The first of the ways in `answers`, the argument of a data set, that finds something decides. In a beginning, which
    is not `whole`, ``last number`` and ``whole`` find nothing, since another number may follow. What stands inside a
    thought, between ``<think>`` and ``</think>``, is no answer. A text whose thought has no end has none.
    """
    text = behind_thought(without_marks(text))
    for way in ways_of(answers):
        if not isinstance(way, str):
            phrase = _phrases(re.escape(way.get("phrase", "")), "|[ \\t]+")
            found = _last_match(way["pattern"], text) if "pattern" in way else _phrase(text, phrase)
        elif whole or way not in _OPEN:
            found = _FINDERS[way](text)
        else:
            continue
        if found and way == "boxed" and "phrase" in ways_of(answers) and not PATTERNS["letter first"].fullmatch(found):
            # "Answer: D" behind a formula in a box
            said = _phrase(text[text.rfind("\\boxed") :])
            if said and PATTERNS["letter first"].fullmatch(said):
                return Answer(said, "phrase")
        if found:
            return Answer(found, way if isinstance(way, str) else next(iter(way)))
    return None


def extract_answer(trajectory: str) -> str | None:
    r"""Return the content of the last complete ``\boxed{...}`` that is not empty, or None if there is none."""
    found = find_answer(trajectory)
    return found and found.text


def without_working(reference: str) -> str:
    """Return the answer of a worked solution: in its last box, or behind #### or A: in its last line, as in GSM8K.

    Any other reference is returned as it is.
    """
    head, _, last = reference.rstrip().rpartition("\n")
    _, mark, answer = last.partition("A:" if head and last.startswith("A:") else "####")
    return (mark and answer.strip()) or _boxed(reference) or reference


_MOST_BOXES = 1000
"""Texts with more boxes are degenerate. The last ones are read."""


def _boxed(text: str) -> str | None:
    """Return what the last box holds, with a sign before it, a size behind it, and the boxes that it is listed with."""
    closed = _closing_braces(text)
    listed: list[tuple[str, str]] = []
    begin = len(text)
    for box in list(PATTERNS["box"].finditer(text))[-_MOST_BOXES:][::-1]:
        found, end = box[1] or "", box.end()
        if found == "{":
            last = closed.get(end - 1)
            found, end = (text[end:last].strip(), last + 1) if last else ("", end)
        if not found or PATTERNS["placeholder"].fullmatch(found):
            continue
        if listed and not PATTERNS["between"].fullmatch(text, end, begin):
            break
        begin = box.start()
        head = text[max(0, begin - 20) : begin]
        if size := PATTERNS["size"].match(text, end):
            found = f"{found} {size[1]}"
        if sign := PATTERNS["sign"].search(head):
            found = (sign[1] or sign[2]) + (found if re.fullmatch(r"[\w.\\{}/ ]+", found) else f"({found})")
        name = PATTERNS["name before"].search(head)
        listed.insert(0, (name[1] if name else "", found))
    names = [name for name, _ in listed]
    named = len(listed) > 1 and all(names) and len(set(names)) == len(names)
    texts = [f"{name} = {found}" if named else found for name, found in listed]
    return ", ".join(dict.fromkeys(texts)) or None


def _closing_braces(text: str) -> dict[int, int]:
    """Return the place of the brace that closes each one, by the place of that."""
    pairs, opened = {}, []
    for brace in re.finditer(r"[{}]", text):
        if brace[0] == "{":
            opened.append(brace.start())
        elif opened:
            pairs[opened.pop()] = brace.start()
    return pairs


def _phrases(nouns: str, verbs: str = "") -> re.Pattern[str]:
    """Return the pattern of what stands before an answer."""
    return compiled(
        rf"(?i)(?:{nouns})[*_]*(?:\s+(?:to|of|for)\s[^.\n:]{{1,80}}?)?[*_]*\s*[*_]*"
        rf"(?:<VERBS>{verbs}|(?<=\*\*)\s*\n|(?<=\*\*\n)|(?<=\*\*\n\n))[*_]*\s*(?:(?:option|choice)\s+)?"
    )


_PHRASE = _phrases("<NOUNS>")
_AROUND = " \t\r\n.*_:,\uff1a\u3002\"'`\u201c\u201d"
_LONGEST = 1000
"""In characters. A longer text behind a phrase is no answer."""


def _phrase(text: str, phrases: re.Pattern[str] = _PHRASE) -> str | None:
    """Return what stands in the last tag <answer>, or else behind the last phrase."""
    tags = [tag for tag in PATTERNS["tag"].findall(text) if not PATTERNS["placeholder"].fullmatch(tag)]
    if tags:
        return _boxed(tags[-1]) or tags[-1].strip(_AROUND)
    for phrase in reversed(list(phrases.finditer(text))):
        rest = text[phrase.end() : phrase.end() + _LONGEST].lstrip(_AROUND)
        maths = PATTERNS["formula"].match(rest)
        if maths and not PATTERNS["goes on"].match(rest, maths.end()):
            rest = maths[2] or maths[3] or maths[4]
        else:
            rest = PATTERNS["end of an answer"].split(rest, maxsplit=1)[0]
        rest = _boxed(rest) or rest.strip(_AROUND)
        if rest:
            return rest
    chosen = PATTERNS["chosen"].findall(text)
    return chosen[-1] if chosen else None


def _hashes(text: str) -> str | None:
    """Return what follows the last ####. A heading in the midst of a text has words, and an answer has none there."""
    *before, last = [line for line in text.rstrip().splitlines() if line.strip()] or [""]
    for line, is_last in [(last, True), *((line, False) for line in reversed(before))]:
        found = line.rpartition("####")[2].strip(_AROUND + "#") if "####" in line else ""
        if found and (is_last or not re.search(r"(?<![\\a-zA-Z])[a-zA-Z]{3,}", found)):
            return found
    return None


def _last_number(text: str) -> str | None:
    found = PATTERNS["number in a text"].findall(text)
    return found[-1].replace("$", "") if found else None


def _last_match(pattern: str, text: str) -> str | None:
    """Return the group of the last match, or all of the match if there is no group."""
    matches = list(re.finditer(pattern, text, re.MULTILINE))
    return next(filter(None, matches[-1].groups() or [matches[-1][0]]), "").strip() if matches else None


_FINDERS: dict[str, Callable[[str], str | None]] = {
    "boxed": _boxed,
    "phrase": _phrase,
    "hashes": _hashes,
    "last number": _last_number,
    "whole": str.strip,
}
