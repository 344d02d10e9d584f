"""The argument `chat_template` of an LLM: the model's own template, a shipped one, or the user's."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prmcal.errors import InvalidArgumentsError
from prmcal.registry.models.chats import Message, pinned_date

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = [
    "NATIVE",
    "check_chat_template",
    "check_prompt",
    "messages_of",
    "prompt_identity",
    "render",
    "shipped_templates",
]

NATIVE = "native"
"""The name of the template that comes with the model's tokenizer."""

_FOLDER = Path(__file__).with_name("templates")
_PROBE = "What is 6 times 7?"
_NAMED_TOKENS = {name: f"<{name}>" for name in ("bos_token", "eos_token", "pad_token", "unk_token")}
"""Special tokens in the probe's prompt, which stand for those of a tokenizer that may not be on this machine."""


def shipped_templates() -> dict[str, Path]:
    """Return the names of the shipped templates and their files, sorted by name."""
    return {path.stem: path for path in sorted(_FOLDER.glob("*.jinja"), key=lambda path: path.stem)}


def messages_of(question: str, system_prompt: str | None) -> list[Message]:
    """Return the chat that asks a question, with a system message if there is a system prompt."""
    system = [] if system_prompt is None else [{"role": "system", "content": system_prompt}]
    return [*system, {"role": "user", "content": question}]


def render(
    chat_template: str, question: str, system_prompt: str | None, special_tokens: Mapping[str, Any]
) -> str:
    """Write the prompt of a question with a template that is not the model's own.

    Parameters
    ----------
    chat_template : str
        The name of a shipped template, the path of a file, or Jinja text. It gets `messages`, as templates of
        transformers do, and the special tokens.
    question : str
    system_prompt : str or None
    special_tokens : mapping of str to str
        Those of the tokenizer, such as ``bos_token``. In the template, those that are missing are empty.

    Raises
    ------
    InvalidArgumentsError
        If there is no such template, or it cannot be rendered.
    """
    try:
        return _compiled(_template_text(chat_template)).render(
            **special_tokens, messages=messages_of(question, system_prompt), add_generation_prompt=True
        )
    except InvalidArgumentsError:
        raise
    except Exception as error:  # A template can fail in any way.
        raise InvalidArgumentsError(
            f"The chat template {_shown(chat_template)} cannot be rendered: {type(error).__name__}: {error}."
        ) from error


def check_chat_template(chat_template: str, system_prompt: str | None) -> None:
    """Check that a template can write a prompt, without a tokenizer. The model's own is not checked.

    Raises
    ------
    InvalidArgumentsError
        If there is no such template, it cannot be rendered, or its prompt leaves out the question or the system prompt.
    """
    if chat_template != NATIVE:
        prompt = render(chat_template, _PROBE, system_prompt, _NAMED_TOKENS)
        check_prompt(prompt, f"The chat template {_shown(chat_template)}", _PROBE, system_prompt)


def check_prompt(prompt: str, template: str, question: str, system_prompt: str | None) -> None:
    """Raise InvalidArgumentsError if a prompt leaves out the question or the system prompt. `template` is named."""
    if question.strip() not in prompt:
        raise InvalidArgumentsError(
            f"{template} leaves out the question: it writes {_shown(prompt)}. Write "
            "{{ messages[-1]['content'] }} where the question belongs."
        )
    if system_prompt is not None and system_prompt.strip() not in prompt:
        raise InvalidArgumentsError(
            f"{template} leaves out the system prompt. Use a template that writes every message, or remove "
            "'system_prompt'."
        )


def prompt_identity(chat_template: str, system_prompt: str | None) -> dict[str, Any]:
    """Return what decides the prompts of an LLM besides its tokenizer, as JSON data for job keys.

    It is the same on a machine without the tokenizer. For a given template it is the template's text and the prompt of
    a probe question, in which names stand for the tokenizer's special tokens. The model's own template is part of the
    checkpoint, whose hash or commit is in the key.
    """
    known = {"chat_template": chat_template, "system_prompt": system_prompt}
    if chat_template == NATIVE:
        return known
    probe = render(chat_template, _PROBE, system_prompt, _NAMED_TOKENS)
    return {**known, "chat_template": _template_text(chat_template), "probe": probe}


def _template_text(chat_template: str) -> str:
    if "{{" in chat_template or "{%" in chat_template:
        return chat_template
    shipped = shipped_templates()
    path = shipped.get(chat_template, Path(chat_template).expanduser())
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        known = [NATIVE, *shipped]
        close = difflib.get_close_matches(chat_template, known, n=1)
        hint = f" Did you mean '{close[0]}'?" if close else ""
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidArgumentsError(
            f"There is no chat template {_shown(chat_template)}.{hint} Give one of {', '.join(known)}, the path of a "
            f"Jinja file, or Jinja text with {{{{ messages }}}}. As a path: {reason}."
        ) from error


@cache
def _compiled(text: str) -> Template:
    """Compile a template as transformers does."""
    from jinja2 import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals |= {"raise_exception": raise_exception, "strftime_now": pinned_date}
    return environment.from_string(text)


def _shown(text: str) -> str:
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= 100 else f"{flat[:97]}...")
