r"""The final answer of a solution, and the ways in which it can be found."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import regex
from pydantic import AfterValidator, Field

from prmcal.errors import DataError
from prmcal.registry.grading.units import PATTERNS, compiled
from prmcal.registry.messages import shown
from prmcal.steps import behind_thought, without_marks

BOXED = "boxed"
WAYS = ("boxed", "phrase", "hashes", "last number", "whole")
MARKED = ("boxed", "hashes", "phrase")
"""The default for texts of unknown form, in this order: ways that match no other text."""

_MOST_CHARACTERS = 500_000  # Of a longer text, which is degenerate, the end is read.
_PATTERN_SECONDS = 10.0  # Processor seconds. A pattern that takes longer with one solution may never end.

_OPEN = ("last number", "whole")
"""Ways that find an answer in every text, even in an unfinished one."""


def _checked(answers: Any) -> Any:
    for way in ways_of(answers):
        if isinstance(way, Mapping):
            if len(way) != 1 or not {*way} <= {"pattern", "phrase"}:
                raise ValueError("a mapping has one entry, 'pattern' or 'phrase'")
            try:
                regex.compile(way.get("pattern", ""))
            except regex.error as error:
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
"""The annotation of the argument. The page "How answers are compared" explains the ways."""


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
    is not `whole`, ``last number`` and ``whole`` find nothing, since another number may follow. Text inside a thought,
    between ``<think>`` and ``</think>``, is ignored. A text whose thought has no end has none.
    """
    text = behind_thought(without_marks(text))[-_MOST_CHARACTERS:]
    for way in ways_of(answers):
        if not isinstance(way, str):
            phrase = _phrases(re.escape(way.get("phrase", "")), "|[ \\t]+")
            answer = _last_match(way["pattern"], text) if "pattern" in way else _phrase(text, phrase)
        elif whole or way not in _OPEN:
            answer = _FINDERS[way](text)
        else:
            continue
        is_letter = PATTERNS["letter first"].fullmatch
        if answer and way == "boxed" and "phrase" in ways_of(answers) and not is_letter(answer):
            # "Answer: D" behind a formula in a box
            phrase_answer = _phrase(text[text.rfind("\\boxed") :])
            if phrase_answer and is_letter(phrase_answer):
                return Answer(phrase_answer, "phrase")
        if answer:
            return Answer(answer, way if isinstance(way, str) else next(iter(way)))
    return None


def extract_answer(trajectory: str) -> str | None:
    r"""Return the content of the last complete ``\boxed{...}`` that is not empty, or None if there is none."""
    answer = find_answer(trajectory)
    return answer and answer.text


def without_working(reference: str) -> str:
    """Return the answer of a worked solution: in its last box, or behind #### or A: in its last line, as in GSM8K.

    Other references are returned unchanged.
    """
    working, _, last_line = reference.rstrip().rpartition("\n")
    _, separator, answer = last_line.partition("A:" if working and last_line.startswith("A:") else "####")
    return (separator and answer.strip()) or _boxed(reference) or reference


_MOST_BOXES = 1000
"""Texts with more boxes are degenerate. The last ones are read."""


def _boxed(text: str) -> str | None:
    """Return the content of the last box, with the sign before it, the size behind it, and the boxes in its list."""
    closing_braces = _closing_braces(text)
    boxes: list[tuple[str, str]] = []
    begin = len(text)
    for box in list(PATTERNS["box"].finditer(text))[-_MOST_BOXES:][::-1]:
        content, end = box[1] or "", box.end()
        if content == "{":
            closing_brace = closing_braces.get(end - 1)
            content, end = (text[end:closing_brace].strip(), closing_brace + 1) if closing_brace else ("", end)
        if not content or PATTERNS["placeholder"].fullmatch(content):
            continue
        if boxes and not PATTERNS["between"].fullmatch(text, end, begin):
            break
        begin = box.start()
        head = text[max(0, begin - 20) : begin]
        if size := PATTERNS["size"].match(text, end):
            content = f"{content} {size[1]}"
        if sign := PATTERNS["sign"].search(head):
            content = (sign[1] or sign[2]) + (content if re.fullmatch(r"[\w.\\{}/ ]+", content) else f"({content})")
        name_match = PATTERNS["name before"].search(head)
        boxes.insert(0, (name_match[1] if name_match else "", content))
    box_names = [box_name for box_name, _ in boxes]
    are_named = len(boxes) > 1 and all(box_names) and len(set(box_names)) == len(box_names)
    texts = [f"{box_name} = {content}" if are_named else content for box_name, content in boxes]
    return ", ".join(dict.fromkeys(texts)) or None


def _closing_braces(text: str) -> dict[int, int]:
    """Return the places of closing braces by the places of the braces that they close."""
    closing_braces, open_braces = {}, []
    for brace in re.finditer(r"[{}]", text):
        if brace[0] == "{":
            open_braces.append(brace.start())
        elif open_braces:
            closing_braces[open_braces.pop()] = brace.start()
    return closing_braces


def _phrases(nouns: str, verbs: str = "") -> re.Pattern[str]:
    """Return the pattern of the words before an answer."""
    return compiled(
        rf"(?i)(?:{nouns})[*_]*(?:\s+(?:to|of|for)\s[^.\n:]{{1,80}}?)?[*_]*\s*[*_]*"
        rf"(?:<VERBS>{verbs}|(?<=\*\*)\s*\n|(?<=\*\*\n)|(?<=\*\*\n\n))[*_]*\s*(?:(?:option|choice)\s+)?"
    )


_PHRASE = _phrases("<NOUNS>")
_AROUND = " \t\r\n.*_:,\uff1a\u3002\"'`\u201c\u201d"
_LONGEST = 1000
"""In characters. A longer text behind a phrase is no answer."""


def _phrase(text: str, phrases: re.Pattern[str] = _PHRASE) -> str | None:
    """Return the content of the last tag <answer>, or else the answer behind the last phrase."""
    tags = [tag for tag in PATTERNS["tag"].findall(text) if not PATTERNS["placeholder"].fullmatch(tag)]
    if tags:
        return _boxed(tags[-1]) or tags[-1].strip(_AROUND)
    for phrase in reversed(list(phrases.finditer(text))):
        answer = text[phrase.end() : phrase.end() + _LONGEST].lstrip(_AROUND)
        formula = PATTERNS["formula"].match(answer)
        if formula and not PATTERNS["goes on"].match(answer, formula.end()):
            answer = formula[2] or formula[3] or formula[4]
        else:
            answer = PATTERNS["end of an answer"].split(answer, maxsplit=1)[0]
        answer = _boxed(answer) or answer.strip(_AROUND)
        if answer:
            return answer
    options = PATTERNS["chosen"].findall(text)
    return options[-1] if options else None


def _hashes(text: str) -> str | None:
    """Return the text after the last ####. A heading in the midst of a text has words, but an answer there has none."""
    *earlier_lines, last_line = [line for line in text.rstrip().splitlines() if line.strip()] or [""]
    for line, is_last in [(last_line, True), *((line, False) for line in reversed(earlier_lines))]:
        answer = line.rpartition("####")[2].strip(_AROUND + "#") if "####" in line else ""
        if answer and (is_last or not re.search(r"(?<![\\a-zA-Z])[a-zA-Z]{3,}", answer)):
            return answer
    return None


def _last_number(text: str) -> str | None:
    numbers = PATTERNS["number in a text"].findall(text)
    return numbers[-1].replace("$", "") if numbers else None


def _last_match(pattern: str, text: str) -> str | None:
    """Return the group of the last match, or all of it without a group. Raise DataError if this takes too long."""
    try:
        matches = list(regex.finditer(pattern, text, regex.MULTILINE, timeout=_PATTERN_SECONDS))
    except TimeoutError as error:
        why = f"The pattern {shown(pattern)} of 'answers' took more than {_PATTERN_SECONDS:g} s with one solution"
        raise DataError(f"{why}. Write it without a repetition inside a repetition.") from error
    return next(filter(None, matches[-1].groups() or [matches[-1][0]]), "").strip() if matches else None


_FINDERS: dict[str, Callable[[str], str | None]] = {
    "boxed": _boxed,
    "phrase": _phrase,
    "hashes": _hashes,
    "last number": _last_number,
    "whole": str.strip,
}
