r"""Grading: finds the final answer of a solution and compares it with the reference answer. It generates nothing.

The rules are ordered, and a rule applies only if the rules before it do not decide: equal text; equal numbers, compared
exactly; tuples, sets, intervals and matrices, compared by element; symbolic equality. Symbolic equality is decided in a
separate process with limits on time and memory. The grading process never evaluates a model's text.
"""

from prmcal.registry.grading.extraction import Answer, Answers, extract_answer, find_answer, without_working
from prmcal.registry.grading.processes import UNDECIDED, Verdict
from prmcal.registry.grading.rules import Grading, any_of, grade_answer, grader_version

__all__ = [
    "UNDECIDED",
    "Answer",
    "Answers",
    "Grading",
    "Verdict",
    "any_of",
    "extract_answer",
    "find_answer",
    "grade_answer",
    "grader_version",
    "without_working",
]
