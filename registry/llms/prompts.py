"""The text that an LLM reads for a prefix, by a template for plain text or for chats; seeds, and stop strings."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import AfterValidator, Field

from prmcal.errors import InvalidArgumentsError, PluginFailedError, PrmcalError
from prmcal.registry.contracts.data import Completion, GenerationRequest, Prefix, Sampling
from prmcal.registry.contracts.models import LLM
from prmcal.registry.messages import excerpt, meant
from prmcal.registry.models import checkpoints
from prmcal.registry.models.checkpoints import Dtype
from prmcal.registry.models.files import LANGUAGE_HEAD, checkpoint_problems
from prmcal.registry.models.tokenizing import Tokenization
from prmcal.registry.splitting import BLANK_LINE, Splitting
from prmcal.steps import THOUGHT_BEGINS, opens_thought, text_so_far

if TYPE_CHECKING:
    from jinja2 import Template
    from transformers import PreTrainedTokenizerBase

NATIVE = "native"
"""The name of the template that comes with the model's tokenizer."""

_FOLDER = Path(__file__).with_name("templates")
_PROBE = "What is 6 times 7?"
_NAMED_TOKENS = {name: f"<{name}>" for name in ("bos_token", "eos_token", "pad_token", "unk_token")}
"""Stand-ins in the probe's prompt for the special tokens of a tokenizer that may not be on this machine."""

Example = Mapping[str, str]
"""A question with its solution, which a prompt shows before the question itself."""
_WORD = 2**32


def shipped_templates() -> dict[str, Path]:
    """Return the names of the shipped templates and their files, sorted by name."""
    return {path.stem: path for path in sorted(_FOLDER.glob("*.jinja"), key=lambda path: path.stem)}


def _checked(examples: tuple[dict[str, str], ...]) -> tuple[dict[str, str], ...]:
    if any(set(example) != {"question", "solution"} for example in examples):
        raise ValueError("an example has a 'question' and a 'solution'")
    return examples


FewShot = Annotated[
    tuple[dict[str, str], ...],
    AfterValidator(_checked),
    Field(description="a list of mappings with 'question' and 'solution', both texts"),
]
"""The annotation of the argument."""


def messages_of(
    question: str, system_prompt: str | None, few_shot: Sequence[Example] = ()
) -> list[checkpoints.Message]:
    """Return the chat that asks a question: the system prompt, if there is one, the examples, and the question."""
    messages = [] if system_prompt is None else [{"role": "system", "content": system_prompt}]
    for example in few_shot:
        messages.append({"role": "user", "content": example["question"]})
        messages.append({"role": "assistant", "content": example["solution"]})
    return [*messages, {"role": "user", "content": question}]


@dataclass(frozen=True)
class PromptFormat:
    """The form of a prompt: its template, its system prompt and its examples."""

    chat_template: str = NATIVE
    """The name of a shipped template, the path of a file, or Jinja text; or ``native``, the tokenizer's own."""
    system_prompt: str | None = None
    few_shot: Sequence[Example] = ()

    def messages(self, question: str) -> list[checkpoints.Message]:
        """Return the chat that asks a question."""
        return messages_of(question, self.system_prompt, self.few_shot)

    def render(self, question: str, special_tokens: Mapping[str, Any]) -> str:
        """Write the prompt of a question with a template that is not the model's own.

        The template gets `messages`, as in transformers, and the special tokens of the tokenizer, such as
        ``bos_token``; missing ones are empty. Raises an InvalidArgumentsError if there is no such template, or it
        cannot be rendered.
        """
        try:
            return compiled(_template_text(self.chat_template)).render(
                **special_tokens, messages=self.messages(question), add_generation_prompt=True
            )
        except InvalidArgumentsError:
            raise
        except Exception as error:  # A template can fail in any way.
            raise InvalidArgumentsError(
                f"The chat template {_quoted(self.chat_template)} cannot be rendered: {type(error).__name__}: {error}."
            ) from error

    def check(self) -> None:
        """Check that a template can write a prompt, without a tokenizer. The model's own is not checked.

        Raises an InvalidArgumentsError if there is no such template, it cannot be rendered, or its prompt leaves out
        the question, the system prompt or an example.
        """
        if self.chat_template != NATIVE:
            prompt = self.render(_PROBE, _NAMED_TOKENS)
            self._check_prompt(prompt, f"The chat template {_quoted(self.chat_template)}", _PROBE)

    def _check_prompt(self, prompt: str, template: str, question: str) -> None:
        """Raise InvalidArgumentsError if a prompt leaves out a part. `template` is named."""
        for number, example in enumerate(self.few_shot, start=1):
            if not all(text.strip() in prompt for text in (example["question"], example["solution"])):
                raise InvalidArgumentsError(
                    f"{template} leaves out example {number} of 'few_shot'. Use a template that writes every message."
                )
        if question.strip() not in prompt:
            raise InvalidArgumentsError(
                f"{template} leaves out the question: it writes {_quoted(prompt)}. Write "
                "{{ messages[-1]['content'] }} where the question belongs."
            )
        if self.system_prompt is not None and self.system_prompt.strip() not in prompt:
            raise InvalidArgumentsError(
                f"{template} leaves out the system prompt. Use a template that writes every message, or remove "
                "'system_prompt'."
            )

    def identity(self) -> dict[str, Any]:
        """Return the identity of the prompts of an LLM without its tokenizer, as JSON data for job keys.

        The identity is the same on a machine without the tokenizer. A given template is identified by its text and by
        the prompt of a probe question, in which names stand for the tokenizer's special tokens. The model's own
        template is part of the checkpoint, whose hash or commit is in the key.
        """
        identity: dict[str, Any] = {"chat_template": self.chat_template, "system_prompt": self.system_prompt}
        if self.few_shot:
            identity["few_shot"] = [dict(example) for example in self.few_shot]
        if self.chat_template == NATIVE:
            return identity
        probe = replace(self, few_shot=()).render(_PROBE, _NAMED_TOKENS)
        return {**identity, "chat_template": _template_text(self.chat_template), "probe": probe}

    def text(self, tokenizer: PreTrainedTokenizerBase | None, prefix: Prefix) -> str:
        """Return the prompt of a prefix. Its steps begin the assistant's turn, each followed by a blank line.

        The template uses the special tokens of the tokenizer. The model's own template needs a tokenizer. Raises a
        PluginFailedError or an InvalidArgumentsError if the template cannot write the prompt, or leaves out the
        question or the system prompt.
        """
        if self.chat_template != NATIVE:
            special_tokens = {} if tokenizer is None else tokenizer.special_tokens_map
            return _continued(self.render(prefix.question, special_tokens), prefix)
        assert tokenizer is not None
        text = checkpoints.chat_text(tokenizer, self.messages(prefix.question))
        self._check_prompt(text, f"The chat template of {tokenizer.name_or_path}", prefix.question)
        return _continued(text, prefix)

    def ids(self, tokenizer: PreTrainedTokenizerBase, prefix: Prefix) -> tuple[int, ...]:
        """Return the token ids of :meth:`text`."""
        # The template writes the special tokens.
        return tuple(tokenizer(self.text(tokenizer, prefix), add_special_tokens=False, verbose=False)["input_ids"])


def _template_text(chat_template: str) -> str:
    if "{{" in chat_template or "{%" in chat_template:
        return chat_template
    shipped = shipped_templates()
    path = shipped.get(chat_template, Path(chat_template).expanduser())
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        names = [NATIVE, *shipped]
        hint = meant(chat_template, names, "Check its name or its path.")
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidArgumentsError(
            f"There is no chat template {_quoted(chat_template)}. {hint} Give one of {', '.join(names)}, the path of a "
            f"Jinja file, or Jinja text with {{{{ messages }}}}. A file of this name cannot be read: {reason}."
        ) from error


@cache
def compiled(text: str, strict: bool = False) -> Template:
    """Compile a template as transformers does, but with the line end at its end.

    An unknown name is empty, or an error if `strict` is true.
    """
    from jinja2 import StrictUndefined, TemplateError, Undefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,  # What a template ends with is where the model begins.
        extensions=["jinja2.ext.loopcontrols"],
        undefined=StrictUndefined if strict else Undefined,
    )
    environment.globals |= {"raise_exception": raise_exception, "strftime_now": checkpoints.pinned_date}
    return environment.from_string(text)


def _quoted(text: str) -> str:
    return repr(excerpt(text, 100))


def chat_tokenizer(checkpoint: str, chat_template: str) -> PreTrainedTokenizerBase:
    """Load a tokenizer. Raises a PluginFailedError if its own chat template is needed and missing."""
    from prmcal.registry.models.pretrained import load_tokenizer

    tokenizer = load_tokenizer(checkpoint)
    if chat_template == NATIVE and tokenizer.chat_template is None:
        raise PluginFailedError(
            f"{checkpoint} has no chat template of its own, which would define the prompt. Use an instruction-tuned "
            "model, or set 'chat_template' to a shipped template or a file."
        )
    return tokenizer


def _continued(prompt: str, prefix: Prefix) -> str:
    """The prompt with the steps so far. If it ends with the tag of a thought, the first step does not repeat it."""
    text = text_so_far(prefix.steps)
    if opens_thought(prompt) and text.startswith(THOUGHT_BEGINS):
        text = text.removeprefix(THOUGHT_BEGINS).lstrip("\n")
        return f"{prompt}{text}" if prompt.endswith("\n") else f"{prompt}\n{text}"
    return prompt + text


def token_count(tokenizer: PreTrainedTokenizerBase, text: str) -> int:
    """Return the number of tokens of a text, without special tokens around it."""
    return len(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])


def room_for_completion(prefix: Prefix, prompt_tokens: int, sampling: Sampling, checkpoint: str, context: int) -> int:
    """Return the maximum number of tokens of a completion, at least 1, given the model's context.

    Raises a PluginFailedError if the prompt fills the context.
    """
    limit = min(sampling.max_tokens, context - prompt_tokens)
    if limit < 1:
        raise PluginFailedError(
            f"A prefix of {prompt_tokens} tokens leaves no room for a completion: the context of {checkpoint} is "
            f"{context} tokens. The prefix starts with {prefix.question[:60]!r}. Lower the grid's max_tokens, or use "
            "an LLM with a longer context."
        )
    return limit


def completion_seed(seed: int, prefix: int, completion: int) -> int:
    """Return the seed of one completion of a prefix, a number of 31 bits, which every engine accepts.

    The seed depends only on the three arguments, so the first 8 of 64 completions have the seeds of n = 8.
    """
    # Two words for every seed. NumPy would use a varying number of words, so that different arguments could collide.
    sequence = np.random.SeedSequence([seed % _WORD, seed // _WORD % _WORD, prefix, completion])
    return int(sequence.generate_state(1)[0] >> 1)


class StopStrings:
    """Finds the first stop string in a completion's tokens.

    Decoding every row after every token would take longer than the forward pass of a small model. So a completion is
    decoded only if its newest token contains the last character of a stop string.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, stop: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._stop = tuple(stop)
        self._can_end: dict[int, bool] = {}

    def __call__(self, tokens: list[int]) -> bool:
        """Return True if the tokens contain a stop string. Call it after every token of a completion."""
        if not self._stop:
            return False
        newest = tokens[-1]
        if newest not in self._can_end:
            # The token is repeated, since some tokenizers drop the space before the first word of a text.
            text = self._decode([newest, newest])
            self._can_end[newest] = "\ufffd" in text or any(stop[-1] in text for stop in self._stop)
        return self._can_end[newest] and any(stop in self._decode(tokens) for stop in self._stop)

    def cut(self, tokens: list[int]) -> str:
        """Return the text of a completion before its first stop string, without special tokens."""
        text = self._decode(tokens)
        return text[: min((text.find(stop) for stop in self._stop if stop in text), default=len(text))]

    def _decode(self, tokens: list[int]) -> str:
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False))


class Templated(LLM):
    """An LLM whose prompt is written here, by a chat template."""

    chat_template: str
    system_prompt: str | None
    few_shot: FewShot

    @property
    @abstractmethod
    def _tokenizer(self) -> PreTrainedTokenizerBase | None:
        """The tokenizer, if there is one."""

    def opens_thought(self, question: str) -> bool:
        """Tell whether the chat template ends the prompt with ``<think>``."""
        return opens_thought(self.prompt(question))

    def prompt(self, question: str) -> str:
        """Return the prompt of a bare question."""
        return self._format.text(self._tokenizer, Prefix(question))

    @property
    def _format(self) -> PromptFormat:
        return PromptFormat(self.chat_template, self.system_prompt, self.few_shot)


@dataclass(eq=False)
class ChatLLM(Templated):
    """The base of LLMs that are loaded here, and whose prompt is written by a chat template."""

    checkpoint: str = field()
    """``nano:NAME``, a folder, a GGUF file, or a hub id with or without ``@REVISION``."""
    dtype: Dtype = "auto"
    """Type of the weights: ``auto`` (as saved; the LLM `transformers` takes ``float32`` on a CPU), ``float32``,
    ``bfloat16`` or ``float16``."""
    chat_template: str = NATIVE
    """The template of the prompt: ``native`` (the tokenizer's own), a shipped one (``llama-3``, ``llama-3-double-bos``
    or ``qwen-2.5``), the path of a Jinja file, or Jinja text. A template gets `messages` and the tokenizer's special
    tokens, as in transformers. If it asks for the date, it always gets 26 July 2024."""
    system_prompt: str | None = None
    """The system message of the chat. With None, the chat template decides."""
    splitting: Splitting = BLANK_LINE
    few_shot: FewShot = ()
    """Examples that the prompt shows before the question, each with `question` and `solution`."""
    suits_machine: ClassVar[tuple[str, ...]] = ()
    """The arguments that only suit the machine, such as the device. They are not part of the job keys."""

    def check_arguments(self) -> None:
        """Raise an error if there is no such checkpoint, or if the chat template cannot write a prompt."""
        checkpoints.check_checkpoint(self.checkpoint)
        self._format.check()

    def problems(self, solution_counts: Mapping[str, int]) -> list[PrmcalError]:
        """Also return problems of the checkpoint that the headers of its files show."""
        reader = f"the LLM '{self.plugin_name}'"
        return super().problems(solution_counts) + checkpoint_problems(self.checkpoint, lambda: LANGUAGE_HEAD, reader)

    @abstractmethod
    def _sampled(self, requests: Sequence[tuple[Prefix, int, int, int]], sampling: Sampling) -> list[Completion]:
        """The completions of requests (prefix, n, seed, index of the prefix), in their order."""

    def generate(self, prefixes: Sequence[Prefix], n: int, sampling: Sampling, seed: int) -> list[list[Completion]]:
        """Sample `n` completions of each prefix; see :meth:`prmcal.LLM.generate`.

        Raises a PluginFailedError if a package is not installed, or if a prefix fills the model's context.
        """
        requests = [(prefix, n, seed, index) for index, prefix in enumerate(prefixes)]
        completions = iter(self._sampled(requests, sampling))
        return [list(islice(completions, n)) for _ in prefixes]

    def generate_batch(self, requests: Sequence[GenerationRequest], sampling: Sampling) -> list[list[Completion]]:
        """Continue several prefixes in the same batches; see :meth:`prmcal.LLM.generate_batch`."""
        calls = [(request.prefix, request.n, request.seed, 0) for request in requests]
        completions = iter(self._sampled(calls, sampling))
        return [list(islice(completions, request.n)) for request in requests]

    def identity(self) -> dict[str, Any]:
        """Return the identity: the content of the weights, the prompt and the other arguments."""
        identity = super().identity()
        left_out = (*self.suits_machine, "checkpoint", "chat_template", "system_prompt", "few_shot")
        identity["arguments"] = {name: value for name, value in identity["arguments"].items() if name not in left_out}
        checkpoint = checkpoints.checkpoint_identity(self.checkpoint)
        return {**identity, "prompt": self._format.identity(), "checkpoint": checkpoint}

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text."""
        return token_count(self._tokenizer, text)

    def _prompt(self, prefix: Prefix) -> tuple[int, ...]:
        # The template writes the special tokens.
        return tuple(self._tokenization(self._format.text(self._tokenizer, prefix), add_special_tokens=False))

    @cached_property
    def _tokenization(self) -> Tokenization:
        return Tokenization(self._tokenizer)

    @cached_property
    def _tokenizer(self) -> PreTrainedTokenizerBase:
        return chat_tokenizer(self.checkpoint, self.chat_template)
