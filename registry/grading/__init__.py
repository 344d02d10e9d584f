r"""Whether a final answer is right: the text of the last ``\boxed{}`` against the reference.

Ordered rules, each only where those before it cannot tell: equal text; equal numbers, compared exactly; tuples, sets,
intervals and matrices, element by element; and only then symbolic equality, in a process of its own with limits of
time and memory. Nothing of a model's text is ever evaluated in the process that grades.
"""

from prmcal.registry.grading.plain import extract_answer
from prmcal.registry.grading.rules import Grading, grade_answer, grader_version

__all__ = ["Grading", "extract_answer", "grade_answer", "grader_version"]
