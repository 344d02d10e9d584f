"""Grade a trajectory: find its final answer, and compare it with the reference answer."""

from __future__ import annotations

from functools import lru_cache
from importlib import metadata
from typing import Literal

from prmcal.registry.grading.latex import equal_in_plain_spelling, exact_number, spelled
from prmcal.registry.grading.structure import compare
from prmcal.registry.grading.symbolic import Verdict, symbolic_verdict

Grading = Literal["plain", "integer", "symbolic"]

LONGEST_ANSWER = 400
"""In characters. Longer answers are compared as text only. The longest answer of MATH has 159 characters."""

_LARGEST_INTEGER = 999
"""AIME's answers are integers from 0 to 999."""


def grade_answer(answer: str, reference: str, grading: Grading = "symbolic") -> Verdict:
    """Grade a final answer.

    Parameters
    ----------
    answer, reference : str
        The answer of the trajectory (the return value of :func:`extract_answer`), and the right answer.
    grading : {"plain", "integer", "symbolic"}
        The comparison. ``plain``: equal text or equal numbers in plain spelling. ``integer``: equal integers from 0 to
        999, as in AIME. ``symbolic``: equal mathematics in LaTeX.

    Returns
    -------
    {"correct", "incorrect", "timed out"}
        "timed out" means that the symbolic comparison exceeded its limit on processor time or memory.

    Raises
    ------
    DataError
        If the process that compares cannot be run, gets no processor time, or is killed again and again.
    """
    if grading == "plain":
        return _verdict(equal_in_plain_spelling(answer, reference))
    if answer.strip() == reference.strip():
        return "correct"
    if max(len(answer), len(reference)) > LONGEST_ANSWER:
        return "incorrect"
    if grading == "integer":
        return _verdict(_equal_integers(answer, reference))
    return _grade_mathematics(answer, reference)


@lru_cache(maxsize=8192)
def _grade_mathematics(answer: str, reference: str) -> Verdict:
    found = compare(spelled(answer), spelled(reference))
    return _verdict(found) if isinstance(found, bool) else symbolic_verdict(found)


def _equal_integers(answer: str, reference: str) -> bool:
    given, expected = (exact_number(spelled(text).rpartition("=")[2].strip()) for text in (answer, reference))
    return (
        given is not None and given == expected and given.denominator == 1 and 0 <= given <= _LARGEST_INTEGER
    )


def _verdict(equal: bool) -> Verdict:
    return "correct" if equal else "incorrect"


@lru_cache
def grader_version(grading: Grading) -> str:
    """Return the version of the rules and their libraries, for job keys. Raise the number when a verdict can change."""
    if grading == "plain":
        return "1"
    if grading == "integer":
        return "integer 1"
    libraries = ", ".join(
        f"{name} {metadata.version(name)}" for name in ("math-verify", "latex2sympy2_extended", "sympy")
    )
    return f"symbolic 2 ({libraries})"
