"""The question that a generative PRM is asked about a prefix: a Jinja template, filled in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from prmcal.errors import InvalidArgumentsError
from prmcal.steps import join_steps

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["WILL_IT_BE_RIGHT", "asked", "check_template"]

WILL_IT_BE_RIGHT = """\
Here is a problem, and the beginning of a solution to it.

Problem:
{{ question }}

Solution so far:
{{ solution or '(nothing yet)' }}

Will this solution reach the right answer when it is finished? Answer Yes or No."""
"""The default. The answer Yes is then the event whose probability a PRM of this project estimates."""

_PROBE = ("What is 6 times 7?", ("It is 6 + 36.", "So 42."))


def asked(template: str, question: str, steps: Sequence[str]) -> str:
    """Fill in a template.

    Parameters
    ----------
    template : str
        Jinja text. It gets `question`, `steps` (a list of texts) and `solution` (the steps with blank lines between
        them, empty for the bare question).
    question : str
    steps : sequence of str

    Raises
    ------
    InvalidArgumentsError
        If it cannot be filled in.
    """
    try:
        return _compiled(template).render(question=question, steps=list(steps), solution=join_steps(steps))
    except Exception as error:  # A template can fail in any way.
        raise InvalidArgumentsError(
            f"The 'template' of the PRM cannot be filled in: {type(error).__name__}: {error}."
        ) from error


def check_template(template: str) -> None:
    """Raise InvalidArgumentsError if a template cannot be filled in, or leaves out the question or a step."""
    question, steps = _PROBE
    text = asked(template, question, steps)
    for name, part in (("the question", question), *(("a step", step) for step in steps)):
        if part not in text:
            raise InvalidArgumentsError(
                f"The 'template' of the PRM leaves out {name}. Write {{{{ question }}}}, and {{{{ solution }}}} or "
                "a loop over 'steps'."
            )
    asked(template, question, ())


@cache
def _compiled(template: str) -> Template:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined
    )
    return environment.from_string(template)
