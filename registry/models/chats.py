"""Write chats as text with the tokenizer's own chat template. Today's date never gets into a prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING

from prmcal.errors import PluginFailedError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["Message", "chat_text", "pinned_date"]

Message = Mapping[str, str]
"""A message of a chat, with `role` and `content`."""

_TODAY = date(2024, 7, 26)
"""What every template takes for today. The templates of Llama 3.1 and 3.2 write it if they are told no date."""


def pinned_date(form: str) -> str:
    """Write the date that every template takes for today, in a format of ``strftime``."""
    return _TODAY.strftime(form)


def chat_text(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message]) -> str:
    """Write a chat with the tokenizer's own template, up to the beginning of the assistant's turn.

    A template that asks for today's date always gets the same one, so that a prompt is the same on all days.

    Raises
    ------
    PluginFailedError
        If the template cannot write these messages.
    """
    from jinja2 import TemplateError

    try:
        return str(
            tokenizer.apply_chat_template(
                [dict(message) for message in messages],
                tokenize=False,
                add_generation_prompt=True,
                strftime_now=pinned_date,
            )
        )
    except TemplateError as error:
        raise PluginFailedError(
            f"The chat template of {tokenizer.name_or_path} cannot write the roles "
            f"{', '.join(message['role'] for message in messages)}: {error}."
        ) from error
