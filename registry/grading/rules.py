"""Grade a final answer: compare it with the reference answer."""

import atexit
import contextlib
import json
import re
from collections.abc import Sequence
from functools import lru_cache
from importlib import metadata
from typing import Literal

from prmcal.registry.grading.exact import equal_in_plain_spelling, exact_number, with_decimal_comma
from prmcal.registry.grading.latex import Spelled, doubt, in_same_unit, spelled
from prmcal.registry.grading.letters import same_option
from prmcal.registry.grading.processes import UNDECIDED, SymbolicComparer, Verdict
from prmcal.registry.grading.structure import Conjunction, Pair, compare
from prmcal.registry.grading.units import PATTERNS

_COMPARER = SymbolicComparer()
atexit.register(_COMPARER.close)

Grading = Literal["plain", "integer", "symbolic"]

LONGEST_ANSWER = 400
"""In characters. Longer answers are compared as text only. The longest answer of MATH has 159 characters."""

_LARGEST_INTEGER = 999
"""AIME's answers are integers from 0 to 999."""


def grade_answer(answer: str, reference: str, grading: Grading = "symbolic") -> Verdict:
    """Grade a final answer by the right answer, or by a JSON list of the answers that are accepted.

    The comparisons are ``plain``: equal text or equal numbers in plain spelling; ``integer``: equal integers from 0 to
    999, as in AIME; ``symbolic``: equal mathematics in LaTeX. The verdict "timed out" means that the symbolic
    comparison exceeded its limit on processor time or memory. Raises a DataError if the process that compares cannot be
    run, gets no processor time, or is killed again and again.
    """
    if len(references := accepted_answers(reference)) > 1 or references[0] != reference:
        verdicts = [grade_answer(answer, reference, grading) for reference in references]
        return next((verdict for verdict in ("correct", *UNDECIDED) if verdict in verdicts), "incorrect")
    if grading == "plain":
        return _verdict(equal_in_plain_spelling(answer, reference))
    if answer.strip() == reference.strip():
        return "correct"
    if max(len(answer), len(reference)) > LONGEST_ANSWER:
        return "incorrect"
    if grading == "integer":
        return _grade_integer(answer, reference)
    return _grade_mathematics(answer, reference)


@lru_cache(maxsize=8192)
def _grade_mathematics(answer: str, reference: str) -> Verdict:
    if (is_same_option := same_option(answer, reference)) is not None:
        return _verdict(is_same_option)
    numbers = [exact_number(text) if text.isascii() and " " not in text else None for text in (answer, reference)]
    if None not in numbers and (numbers[0] == numbers[1] or "," not in answer):
        return _verdict(numbers[0] == numbers[1])
    spelled_answer, spelled_reference = spelled(answer), spelled(reference)
    number = exact_number(spelled_reference.text)
    if number is not None and exact_number(spelled_answer.text) is None:
        spelled_answer = spelled(answer, True)
    elif number is None and exact_number(spelled_answer.text) is not None:
        spelled_reference = spelled(reference, True)
    values = in_same_unit(spelled_answer, spelled_reference)
    if values is None:
        return "incorrect"
    if number is not None and number == with_decimal_comma(values[0]):
        return "ambiguous comma" if re.fullmatch(r"[-+]?[1-9]\d*,\d{3}", values[0]) else "correct"
    # y = 2x + 3 and y - 2x = 3
    are_equations = "=" in spelled_answer.text, "=" in spelled_reference.text
    if spelled_answer.name != spelled_reference.name and are_equations[0] != are_equations[1]:
        values = _equation(spelled_answer), _equation(spelled_reference)
    comparison = compare(*values)
    claims = tuple(Pair(*claim) for claim in {*spelled_answer.claims} ^ {*spelled_reference.claims})
    if claims and comparison:
        comparison = Conjunction((*claims, *(() if comparison is True else (comparison,))))
    verdict = _verdict(comparison) if isinstance(comparison, bool) else _COMPARER.verdict(comparison)
    reason = doubt(spelled_answer, spelled_reference) if verdict == "correct" else ""
    return "incorrect" if reason == "turned" else "unknown words" if reason else verdict


def _equation(value: Spelled) -> str:
    return f"{value.name}={value.text}".lstrip("=")


def _grade_integer(answer: str, reference: str) -> Verdict:
    spellings = spelled(answer), spelled(reference)
    answer, reference = (spelling.text.rpartition("=")[2].strip() for spelling in spellings)
    number = exact_number(reference)
    if number is None or number.denominator != 1 or not 0 <= number <= _LARGEST_INTEGER or spellings[0].words.unknown:
        return "incorrect"
    if exact_number(answer) is None and PATTERNS["arithmetic"].fullmatch(answer):
        return _COMPARER.verdict(Pair(answer, reference))
    return _verdict(exact_number(answer) == number)


def any_of(answers: Sequence[str]) -> str:
    """Return the reference for accepted answers: the only answer, or a JSON list."""
    return answers[0] if len(answers) == 1 else json.dumps(answers, ensure_ascii=False)


def accepted_answers(reference: str) -> list[str]:
    """Return the accepted answers of a reference. Only a JSON list of texts is a list of them."""
    if reference.lstrip().startswith('["'):
        with contextlib.suppress(ValueError):
            answers = json.loads(reference)
            if all(isinstance(answer, str) for answer in answers):
                return list(answers)
    return [reference]


def _verdict(equal: bool) -> Verdict:
    return "correct" if equal else "incorrect"


_VERSIONS = {"integer": 3, "symbolic": 4}
_LIBRARIES = ("math-verify", "latex2sympy2_extended", "sympy")


@lru_cache
def grader_version(grading: Grading) -> str:
    """Return the version of the rules and their libraries, for job keys. Raise the number when a verdict can change."""
    if grading == "plain":
        return "1"
    libraries = ", ".join(f"{name} {metadata.version(name)}" for name in _LIBRARIES)
    return f"{grading} {_VERSIONS[grading]} ({libraries})"


def library_changes(version: str) -> list[str]:
    """Return which libraries of a :func:`grader_version` have another version now, such as ``sympy is now 1.14``."""
    return [
        f"{name} {before} is now {metadata.version(name)}"
        for name in _LIBRARIES
        for before in re.findall(rf"{re.escape(name)} ([\w.]+)", version)
        if before != metadata.version(name)
    ]
