r"""Grading: compares the last ``\boxed{}`` of a solution with the reference answer. It generates and scores nothing.

The rules are ordered, and a rule applies only if the rules before it do not decide: equal text; equal numbers, compared
exactly; tuples, sets, intervals and matrices, compared by element; symbolic equality. Symbolic equality is decided in a
separate process with limits on time and memory. The grading process never evaluates a model's text.
"""

from prmcal.registry.grading.latex import extract_answer
from prmcal.registry.grading.rules import Grading, grade_answer, grader_version
from prmcal.registry.grading.symbolic import Verdict

__all__ = ["Grading", "Verdict", "extract_answer", "grade_answer", "grader_version"]
