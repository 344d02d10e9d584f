"""The LLMs `openai` and `openai-chat`: any server with the completions or the chat completions API of OpenAI."""

import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from prmcal.errors import NoAnswerError, PluginFailedError
from prmcal.registry.contracts.data import Completion, FinishReason, Prefix, Sampling
from prmcal.registry.contracts.models import LLM
from prmcal.registry.llms import prompts
from prmcal.registry.llms.prompts import NATIVE, FewShot, messages_of
from prmcal.registry.messages import excerpt
from prmcal.registry.models.checkpoints import check_checkpoint, checkpoint_identity
from prmcal.registry.network import IncompleteReplyError
from prmcal.registry.served import Served
from prmcal.registry.splitting import BLANK_LINE, Splitting
from prmcal.steps import THOUGHT_BEGINS, THOUGHT_ENDS, in_thought, text_so_far

if TYPE_CHECKING:
    import httpx2
    from transformers import PreTrainedTokenizerBase

_STOPPED_BY = ("stop_reason", "matched_stop")
"""The fields in which vLLM and SGLang return a stop string. After an end token they are null, or its id."""


_NEUTRAL: Mapping[str, float] = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "repeat_penalty": 1.0}
"""Sampling that changes nothing. llama.cpp takes top_k 40 and min_p .05 by itself, vLLM what a model's file says."""

_LOG = logging.getLogger(__name__)
Continues = Literal["vllm", "prefix", "none"]
"""The way in which a server is asked to continue the assistant's last message instead of answering it."""

_REASONING = ("reasoning", "reasoning_content")
"""The fields in which servers return the thoughts of an LLM beside its answer. vLLM calls it by the first name."""


@dataclass(eq=False, kw_only=True)
class ServedLLM(Served, LLM):
    """The base of LLMs behind a server. A subclass defines the request for a prefix, and where a reply has its text."""

    deterministic = False
    refused = "Check 'model', and that max_tokens fits the context of the server."

    system_prompt: str | None = None
    """The system message of the chat. With None, the chat template decides."""
    splitting: Splitting = BLANK_LINE
    """Where the steps of the texts end: ``blank-line``, ``lines``, ``sentences``, ``markers`` or ``after-think``. Or a
    mapping with `rule`, one of these, and the options `markers` (a list of words), `least_tokens` and `most_tokens`.
    See the how-to page about reasoning models. Without a tokenizer, the limits of a step count words."""
    few_shot: FewShot = ()
    """Examples that the prompt shows before the question, each with `question` and `solution`."""
    _takes_neutral: bool | None = field(default=None, init=False, repr=False)

    @abstractmethod
    def prompt_fields(self, prefix: Prefix) -> dict[str, Any]:
        """Return the fields of a request that hold a prefix, such as ``prompt``."""

    @abstractmethod
    def text_of(self, choice: Mapping[str, Any], request: Mapping[str, Any]) -> str:
        """Return the text of a finished choice of the reply to a request, which still ends with its stop string."""

    def generate(self, prefixes: Sequence[Prefix], n: int, sampling: Sampling, seed: int) -> list[list[Completion]]:
        """Sample `n` completions of each prefix; see :meth:`prmcal.LLM.generate`.

        Raises a NoAnswerError if a request fails for longer than the patience. Raises a PluginFailedError if the server
        refuses a request.
        """
        requests = self._requests(prefixes, n, sampling, seed)
        neutral = self._neutral(requests[0]) if requests else {}
        completions = self.client.ask([{**request, **neutral} for request in requests], self._completion)
        return [completions[start : start + n] for start in range(0, len(prefixes) * n, n)]

    def _requests(self, prefixes: Sequence[Prefix], n: int, sampling: Sampling, seed: int) -> list[dict[str, Any]]:
        common = {
            "n": 1,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            **({"stop": list(sampling.stop)} if sampling.stop else {}),
        }
        requests = []
        for index, prefix in enumerate(prefixes):
            request = {"model": self.model, **self.prompt_fields(prefix), **common}
            seeds = (prompts.completion_seed(seed, index, sample) for sample in range(n))
            requests += [{**request, "seed": sample_seed} for sample_seed in seeds]
        return requests

    def probe(self, question: str) -> None:
        """Ask for one token about a question; see :meth:`Served.probe`."""
        (request,) = self._requests([Prefix(question)], 1, Sampling(max_tokens=1), 0)
        self.client.probe(request, self._completion)

    def _neutral(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the values that turn off a server's sampling, if the server takes them. The server is asked once."""
        if self._takes_neutral is None:
            probe = {**request, "max_tokens": 1, **_NEUTRAL}
            try:
                self.client.ask([probe], lambda response, _: response.status_code)
                self._takes_neutral = True
            except NoAnswerError:
                raise
            except PluginFailedError:
                self._takes_neutral = False
            _LOG.warning(
                "The server %s %s. The sampling is that of the grid%s.",
                self.base_url,
                f"takes {_NEUTRAL}" if self._takes_neutral else f"refuses {', '.join(_NEUTRAL)}",
                "" if self._takes_neutral else ", and what the server adds by itself is not known",
            )
        return _NEUTRAL if self._takes_neutral else {}

    def _completion(self, response: "httpx2.Response", request: Mapping[str, Any]) -> Completion:
        reply = response.json()
        choice = reply["choices"][0]
        reason = choice["finish_reason"]
        text = self.text_of(choice, request)
        usage = reply["usage"]
        tokens, prompt = int(usage["completion_tokens"]), int(usage.get("prompt_tokens") or 0)
        if not isinstance(text, str) or reason not in ("stop", "length"):
            raise IncompleteReplyError(f"it did not finish a completion (finish_reason {excerpt(repr(reason))})")
        if not 0 <= min(tokens, prompt) <= max(tokens, prompt) < 2**31:
            raise IncompleteReplyError(f"it counted {tokens} tokens in a completion and {prompt} in its prompt")
        text.encode()  # Half of a surrogate pair raises an error.
        stops = request.get("stop", ())
        why = _finish_reason(choice, text, bool(stops))
        for stop in stops:
            text = text.partition(stop)[0]
        return Completion(text, tokens, why, prompt)


def _finish_reason(choice: Mapping[str, Any], text: str, stops: bool) -> FinishReason:
    """The reason of a finished choice with a text. `stops` is whether the request has stop strings.

    If a server does not say what stopped the LLM, a stop string is assumed, unless the text is empty: a search would
    ask again and again for a step that never comes.
    """
    if choice["finish_reason"] == "length":
        return "length"
    if not stops:
        return "end"
    for name in _STOPPED_BY:
        if name in choice:
            return "stop" if isinstance(choice[name], str) else "end"
    return "stop" if text else "end"


@dataclass(eq=False)
class OpenAILLM(prompts.Templated, ServedLLM):
    """A model on a server, with one completion per request and many requests in parallel.

    prmcal writes the prompt, by a chat template as in the LLM `transformers`, and uses the completions interface. So a
    prefix is continued in the same way on every server. For servers that have only chat completions, there is the LLM
    `openai-chat`.

    Notes
    -----
    Every completion has its own seed, a function of (seed, index of the prefix, index of the completion). So the first
    8 of 64 completions equal the 8 of n = 8, if the server's texts depend on the seed alone.

    OpenAI's interface has one word for an end token and for a stop string. vLLM's ``stop_reason`` and SGLang's
    ``matched_stop`` distinguish them. If a server returns neither, a completion that was not cut off counts as ended at
    a stop string (``stop``) if the sampling has stop strings, and otherwise at the end token.

    Servers have sampling of their own besides temperature and top_p, such as llama.cpp's top_k of 40. Values that turn
    it off are sent to a server that takes them. The log of the run says whether it takes them.
    """

    version = "3"
    path = "/completions"

    tokenizer: str | None = None
    """A checkpoint with the server's tokenizer: a folder, a hub id with or without ``@REVISION``, or ``nano:NAME``.
    Prompts are then sent as token ids. Without it, prompts are sent as text, and most servers add the token for the
    beginning."""
    chat_template: str = NATIVE
    """The template that writes the prompt, as in the LLM `transformers`. The default, the tokenizer's own, needs a
    `tokenizer`. Without one, a template's special tokens such as ``bos_token`` are empty."""

    def check_arguments(self) -> None:
        """Raise an error if nothing can write the prompt, or if there is no such tokenizer."""
        if self.tokenizer is None and self.chat_template == NATIVE:
            raise ValueError(
                "Give 'tokenizer', the checkpoint whose own chat template writes the prompt, or a 'chat_template'."
            )
        if self.tokenizer is not None:
            check_checkpoint(self.tokenizer)
        self._format.check()

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """The checkpoint of the tokenizer, if there is one."""
        return () if self.tokenizer is None else (self.tokenizer,)

    def identity(self) -> dict[str, Any]:
        """Return the identity: the model and its prompt. The server is not part of it."""
        identity = super().identity()
        identity["arguments"] = {name: identity["arguments"].get(name) for name in ("model", "weights")}
        identity["prompt"] = self._format.identity()
        if self.tokenizer is not None:
            identity["tokenizer"] = checkpoint_identity(self.tokenizer)
        return identity

    def prompt_fields(self, prefix: Prefix) -> dict[str, Any]:
        """Return the prompt of a prefix: token ids, or text if there is no tokenizer."""
        if self._tokenizer is None:
            return {"prompt": self._format.text(None, prefix)}
        return {"prompt": list(self._format.ids(self._tokenizer, prefix))}

    def text_of(self, choice: Mapping[str, Any], request: Mapping[str, Any]) -> str:
        """Return the text of a choice."""
        text: str = choice["text"]
        return text

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text, or of its words if there is no tokenizer."""
        if self._tokenizer is None:
            return super().count_tokens(text)
        return prompts.token_count(self._tokenizer, text)

    @cached_property
    def _tokenizer(self) -> "PreTrainedTokenizerBase | None":
        return None if self.tokenizer is None else prompts.chat_tokenizer(self.tokenizer, self.chat_template)


def reply_text(message: Mapping[str, Any], so_far: str) -> str:
    """Return the text of a reply, with the thoughts of a reasoning LLM between ``<think>`` and ``</think>``.

    Servers that separate thoughts and answer remove these tags. The tags are put back, so that the text can be cut into
    steps and continued. The assistant's message has ``content``, and ``reasoning`` or ``reasoning_content``. Each may
    be absent or null. If the text that it continues, `so_far`, ends within thoughts, they go on without another
    ``<think>``.
    """
    content = message.get("content") or ""
    thoughts = next((message[name] for name in _REASONING if message.get(name)), "")
    if not thoughts:
        return str(content)
    thoughts = thoughts if in_thought(so_far) else f"{THOUGHT_BEGINS}\n{thoughts.lstrip()}"
    if not content:  # The completion ended before the answer.
        return thoughts
    return f"{thoughts.rstrip()}\n{THOUGHT_ENDS}\n\n{content.lstrip()}"


@dataclass(eq=False)
class OpenAIChatLLM(ServedLLM):
    """A model behind chat completions, with one completion per request and many requests in parallel.

    The server writes the prompt with its own chat template, so no tokenizer is needed here. The steps of a prefix are
    the beginning of the assistant's message, each followed by a blank line. `continues` names the fields that make the
    server go on from there.

    Notes
    -----
    Seeds and reasons to stop are as in the LLM `openai`. DeepSeek and others ignore seeds.

    A server for reasoning models returns thoughts apart from the answer, in ``reasoning`` or ``reasoning_content``.
    The thoughts are put back in front of the answer, between ``<think>`` and ``</think>``.

    The server's chat template decides how well a prefix is continued. A template that trims messages, such as Llama
    3's, removes the blank line at the end of a prefix. The model then writes it again, and a search that stops at blank
    lines sees an empty step. Templates of reasoning models rewrite thoughts that are not finished. The LLM `openai`
    writes its prompts itself and does not depend on this.
    """

    version = "2"
    path = "/chat/completions"

    continues: Continues = field(kw_only=True)
    """The way to continue a prefix. ``vllm`` sends ``continue_final_message: true`` and ``add_generation_prompt:
    false``, for vLLM and SGLang. ``prefix`` marks the assistant's message with ``prefix: true``, for DeepSeek and
    Mistral. With ``none`` the LLM can only write whole solutions: success rates by follow-ups and beam search fail."""

    def identity(self) -> dict[str, Any]:
        """Return the identity: the model and its prompt. The server is not part of it."""
        identity = super().identity()
        decisive = ("model", "weights", "system_prompt", "continues")
        identity["arguments"] = {name: identity["arguments"].get(name) for name in decisive}
        if self.few_shot:
            identity["arguments"]["few_shot"] = [dict(example) for example in self.few_shot]
        return identity

    def prompt_fields(self, prefix: Prefix) -> dict[str, Any]:
        """Return the messages of a prefix.

        Raises a PluginFailedError if the prefix has steps and `continues` is ``none``.
        """
        chat = messages_of(prefix.question, self.system_prompt, self.few_shot)
        messages: list[dict[str, Any]] = [dict(message) for message in chat]
        if not prefix.steps:
            return {"messages": messages}
        continued_message = {"role": "assistant", "content": text_so_far(prefix.steps)}
        match self.continues:
            case "vllm":
                open_ended = {"add_generation_prompt": False, "continue_final_message": True}
                return {"messages": [*messages, continued_message], **open_ended}
            case "prefix":
                return {"messages": [*messages, {**continued_message, "prefix": True}]}
            case "none":
                raise PluginFailedError(
                    f"With 'continues: none' an LLM only writes whole solutions, but a prefix of {len(prefix.steps)} "
                    "steps must be continued. Follow-ups, calibrators and beam search cannot run with this LLM. Set "
                    "'continues' to 'vllm' (vLLM, SGLang) or 'prefix' (DeepSeek, Mistral) if the server can continue "
                    "a message, or use the LLM 'openai' with a completions interface. Strategies that need only whole "
                    "solutions, such as best-of-n without a calibrator, are not affected."
                )

    def text_of(self, choice: Mapping[str, Any], request: Mapping[str, Any]) -> str:
        """Return the text of a choice, its thoughts included."""
        last_message = request["messages"][-1]
        return reply_text(choice["message"], last_message["content"] if last_message["role"] == "assistant" else "")
