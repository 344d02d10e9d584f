"""Jinja templates for the text of a prefix that language models and classifiers read, and the words of two answers."""

from collections.abc import Sequence

from prmcal.errors import InvalidArgumentsError
from prmcal.registry.llms.prompts import compiled
from prmcal.steps import STEP_SEPARATOR

WILL_IT_BE_RIGHT = """\
Here is a problem, and the beginning of a solution to it.

Problem:
{{ question }}

Solution so far:
{{ solution or '(nothing yet)' }}

Will this solution reach the right answer when it is finished? Answer Yes or No."""
"""The default. The answer Yes is then the event whose probability a PRM of this project estimates."""

YES = ("Yes", " Yes", "yes", " yes")
NO = ("No", " No", "no", " no")
"""The spellings of the two answers."""

_PROBE = ("What is 6 times 7?", ("It is 6 + 36.", "So 42."))


def filled(template: str, question: str, steps: Sequence[str], between: str = STEP_SEPARATOR) -> str:
    """Fill in a template, Jinja text.

    It gets `question`, `steps` (a list of texts) and `solution` (the steps with `between` between them, empty for the
    bare question). Raises an InvalidArgumentsError if it cannot be filled in.
    """
    try:
        return compiled(template, strict=True).render(
            question=question, steps=list(steps), solution=between.join(steps)
        )
    except Exception as error:  # A template can fail in any way.
        raise InvalidArgumentsError(
            f"The 'template' of the PRM cannot be filled in: {type(error).__name__}: {error}."
        ) from error


def check_template(template: str) -> None:
    """Raise InvalidArgumentsError if a template cannot be filled in, or leaves out the question or a step."""
    question, steps = _PROBE
    text = filled(template, question, steps)
    for name, needed_text in (("the question", question), *(("a step", step) for step in steps)):
        if needed_text not in text:
            raise InvalidArgumentsError(
                f"The 'template' of the PRM leaves out {name}. Write {{{{ question }}}}, and {{{{ solution }}}} or "
                "a loop over 'steps'."
            )
    filled(template, question, ())


def check_words(right: Sequence[str], wrong: Sequence[str]) -> None:
    """Raise ValueError if two answers share a spelling, apart from spaces, or a spelling is empty."""
    shared_words = {word.strip() for word in right} & {word.strip() for word in wrong}
    if shared_words or not all(word.strip() for word in (*right, *wrong)):
        raise ValueError(
            "The 'right' and 'wrong' parameters must be lists of different texts that are not empty. "
            f"Got {list(right)} and {list(wrong)} instead."
        )
