"""The PRM `judge`: a language model that is asked whether a solution will be right, on this machine or on a server."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import scipy  # its parts are imported when they are used
from pydantic import Field

from prmcal.errors import PluginFailedError, PrmcalError
from prmcal.registry.contracts.data import PrefixScores, ScoringRequest
from prmcal.registry.contracts.models import PRM
from prmcal.registry.contracts.plugin import Count, FromClass, Positive, errors_of, from_class
from prmcal.registry.llms.prompts import messages_of
from prmcal.registry.models.checkpoints import chat_text, folder_here
from prmcal.registry.models.files import LANGUAGE_HEAD, Head
from prmcal.registry.network import DEFAULT_PATIENCE, IncompleteReplyError
from prmcal.registry.prms.answers import answer_head, answer_token, language_model
from prmcal.registry.prms.templates import NO, WILL_IT_BE_RIGHT, YES, check_template, check_words, filled
from prmcal.registry.prms.transformers import TransformersPRM
from prmcal.registry.served import ADDRESS, Address, Served
from prmcal.steps import THOUGHT_ENDS, in_thought

if TYPE_CHECKING:
    import httpx2
    import torch

_Words = Annotated[list[str], Field(min_length=1)]

_DECISIVE = (
    *("model", "weights", "template", "right", "wrong", "chat", "system_prompt", "top_logprobs", "fields"),
    *("max_tokens", "read_thoughts"),
)
"""The arguments that decide the scores of a judge on a server."""

_LENGTH_REFUSED = re.compile(r"context[ _](length|size|window)", re.IGNORECASE)
"""The words with which vLLM, SGLang, llama.cpp and OpenAI refuse a text that is too long."""
_LEAST = 1e-9
"""The smallest probability of an answer that a server does not name."""


@dataclass(eq=False)
class JudgePRM(TransformersPRM):
    r"""A causal language model that is asked whether a solution will be right, and answers Yes or No.

    The score is the log-odds of Yes against No as the next token. Spellings of an answer are joined by logsumexp. The
    model is on this machine, given by its `checkpoint`, or on a server, given by `base_url` and `model`.

    **A checkpoint** is any causal language model of transformers. All prefixes of a trajectory are scored in one pass.
    If the chat template begins a thought (``<think>``), it is ended before the answer is read.

    **A server** is any of OpenAI's interface with log-probabilities. A server names only the most likely tokens. An
    answer that is not among these tokens has at most the probability of the last one, and at most 1 minus the sum of
    all their probabilities. The lower of the two is assumed. The server counts the tokens. A prefix that is too long
    for the server, or has more than `max_tokens`, is flagged. Some servers, such as Ollama, cut long texts silently.
    Set `max_tokens` below the context of these. Calibrators that read hidden states or fine-tune the PRM need a
    checkpoint.

    A subclass sets the class attributes `checkpoint`, `template`, `right`, `wrong`, `chat` or `max_tokens`, or
    overrides `prefix_text`.
    """

    citation = "Zhang et al. (2025), ICLR, arXiv:2408.15240"
    suits_machine = (
        *TransformersPRM.suits_machine,
        *("base_url", "model", "weights", "key_variable", "concurrency", "timeout", "top_logprobs", "fields"),
    )
    template: FromClass[str] = from_class(WILL_IT_BE_RIGHT)
    """The question about a prefix, as Jinja text with `question`, `steps` and `solution` (the steps with blank lines
    between them). By default: will the solution reach the right answer?"""
    right: FromClass[_Words] = from_class(list(YES))
    wrong: FromClass[_Words] = from_class(list(NO))
    """The spellings of the two answers. Spellings that are no single token of the model are ignored. A server's tokens
    are compared without spaces around them. In YAML they need quotation marks."""
    chat: FromClass[bool] = from_class(True)
    """True if the question is a user's message of a chat. Otherwise the model reads it as plain text."""
    system_prompt: str | None = None
    """The system message of the chat. By default there is no system prompt."""

    base_url: Annotated[Address | None, ADDRESS] = None
    """The address of a server, such as ``http://localhost:8000/v1``. The path of the interface is appended."""
    model: str = ""
    """The name of the model on the server."""
    weights: str = ""
    key_variable: str | None = None
    concurrency: Count = 64
    timeout: Positive = 600.0
    patience: Positive = DEFAULT_PATIENCE
    """As in the LLM `openai`, for a server."""
    top_logprobs: Annotated[int, Field(ge=1, le=1000)] = 20
    """The number of tokens that the server names. Many servers name at most 20, and some at most 5."""
    fields: dict[str, Any] | None = None
    """Further fields of a request to the server, such as ``chat_template_kwargs: {enable_thinking: false}`` for a
    reasoning model. With null, a field is left out."""

    def check_arguments(self) -> None:
        """Also raise an error if no model or two are given, the template leaves out a part, or Yes equals No."""
        if self.base_url is None:
            super().check_arguments()
        elif self.checkpoint or not self.model:
            raise ValueError(
                "A judge on a server needs 'base_url' and 'model', and no 'checkpoint', which is for a model on this "
                "machine."
            )
        check_template(self.template)
        check_words(self.right, self.wrong)

    def problems(self, solution_counts: Mapping[str, int]) -> list[PrmcalError]:
        """Return problems: the checkpoint cannot be loaded or has no token for an answer, or the server is silent."""
        if self._server is None:
            here = folder_here(self.checkpoint) is not None  # A plan may be made on another machine.
            return super().problems(solution_counts) or (errors_of(lambda: self._answers) if here else [])
        text = filled(self.template, next(iter(solution_counts), "What is 6 times 7?"), ())
        return PRM.problems(self, solution_counts) or errors_of(partial(self._server.probe, text))

    def identity(self) -> dict[str, Any]:
        """Return the identity: the model and its prompt. The server is not part of it."""
        if self._server is not None:
            return {**PRM.identity(self), "arguments": {name: getattr(self, name) for name in _DECISIVE}}
        words = {"right": list(self.right), "wrong": list(self.wrong)}
        return {**super().identity(), "template": self.template, "chat": self.chat, **words}

    def prefix_text(self, question: str, steps: Sequence[str]) -> str:
        """Return the question about a prefix, in the chat. A thought that the chat template begins is ended."""
        text = filled(self.template, question, steps)
        if self.chat:
            if self.tokenizer.chat_template is None:
                raise PluginFailedError(
                    f"{self.checkpoint} has no chat template, which the PRM '{self.plugin_name}' needs. Use an "
                    "instruction-tuned model, or set 'chat' to false."
                )
            text = chat_text(self.tokenizer, messages_of(text, self.system_prompt))
        if not in_thought(text):
            return text
        gap = "" if text.endswith("\n") else "\n"
        return f"{text}{gap}{THOUGHT_ENDS}\n\n"

    def tokenize(self, text: str) -> list[int]:
        """Return the token ids of a text. A chat contains the special tokens."""
        return self._tokenization(text, add_special_tokens=not self.chat)

    def log_odds(self, head: torch.Tensor) -> torch.Tensor:
        """Return the log-odds of Yes against No. The outputs are the logits of all spellings of Yes, then of No."""
        import torch

        count = len(self._answers[0])
        return torch.logsumexp(head[..., :count], -1) - torch.logsumexp(head[..., count:], -1)

    def outputs(self) -> int:
        """Return the number of spellings of both answers that the model has tokens for."""
        return sum(map(len, self._answers))

    def head_weights(self) -> Head:
        """Return the weights of the language-model head."""
        return LANGUAGE_HEAD

    def load_model(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """Load the trunk, and the rows of the answers in the language-model head."""
        if self._server is not None:
            raise PluginFailedError(
                "it runs on a server, which has no hidden states. Give it a 'checkpoint' in place of the server, or "
                "leave out calibrators that read hidden states or fine-tune the PRM."
            )
        model = language_model(self)
        return model.base_model, answer_head(model, [token for tokens in self._answers for token in tokens], self)

    def score_batch(self, requests: Sequence[ScoringRequest]) -> list[list[PrefixScores]]:
        """Score several questions together; see :meth:`prmcal.PRM.score_batch`.

        Raises the errors of :meth:`prmcal.registry.prms.judge.JudgeServer.answers` for a server.
        """
        if self._server is None:
            return super().score_batch(requests)

        def texts_of(request: ScoringRequest, steps: tuple[str, ...]) -> list[str]:
            read_prefixes = map(self.read_steps, request.prefixes(steps))
            return [filled(self.template, request.question, prefix) for prefix in read_prefixes]

        texts = [[texts_of(request, steps) for steps in request.trajectories] for request in requests]
        distinct = list(dict.fromkeys(text for solutions in texts for prefixes in solutions for text in prefixes))
        answers = dict(zip(distinct, self._server.answers(distinct), strict=True))
        return [[_scores(answers[text] for text in prefixes) for prefixes in solutions] for solutions in texts]

    @property
    def form(self) -> TransformersPRM | None:
        """The PRM on transformers with these texts and outputs; None for a server."""
        return self if self._server is None else None

    @cached_property
    def _server(self) -> JudgeServer | None:
        if self.base_url is None:
            return None
        names = (field.name for field in dataclasses.fields(Served))
        return JudgeServer(prm=self, **{name: getattr(self, name) for name in names})

    @cached_property
    def _answers(self) -> tuple[list[int], list[int]]:
        """The distinct tokens of Yes and of No."""
        answers = []
        for name, spellings in (("right", self.right), ("wrong", self.wrong)):
            tokens = [answer_token(self.tokenizer, spelling) for spelling in spellings]
            of_model = list(dict.fromkeys(token for token in tokens if token is not None))
            if not of_model:
                raise PluginFailedError(
                    f"None of {', '.join(map(repr, spellings))} is a token of {self.checkpoint}, which the PRM "
                    f"'{self.plugin_name}' needs to read its answer. Set '{name}' to texts that the model has tokens "
                    "for."
                )
            answers.append(of_model)
        return answers[0], answers[1]


class Answer(NamedTuple):
    """The log-odds of Yes, NaN if the text is too long, and the number of tokens that were read."""

    log_odds: float
    tokens: int


@dataclass(eq=False, kw_only=True)
class JudgeServer(Served):
    """A language model behind OpenAI's interface that answers a judge, for any server with log-probabilities."""

    refused = "Check 'model', and that the server gives as many log-probabilities as 'top_logprobs' says."
    understood = _LENGTH_REFUSED

    prm: JudgePRM

    @property
    def path(self) -> str:
        """That of chats, or of texts."""
        return "/chat/completions" if self.prm.chat else "/completions"

    def probe(self, text: str) -> None:
        """Ask with one text; see :meth:`prmcal.registry.served.Served.probe`."""
        self.client.probe(self._request(text), self._answer)

    def answers(self, texts: Sequence[str]) -> list[Answer]:
        """Return the answer to each text.

        Raises a NoAnswerError if a request fails for longer than the patience. Raises a PluginFailedError if the server
        refuses a request, gives no log-probabilities, or answers with neither Yes nor No.
        """
        return self.client.ask([self._request(text) for text in texts], self._answer)

    def _request(self, text: str) -> dict[str, Any]:
        # Some servers divide the logits by the temperature before they take log-probabilities.
        request: dict[str, Any] = {"model": self.model, "max_tokens": 1, "temperature": 1.0, "top_p": 1.0}
        prm = self.prm
        if prm.chat:
            messages = [dict(message) for message in messages_of(text, prm.system_prompt)]
            request |= {"messages": messages, "logprobs": True, "top_logprobs": prm.top_logprobs}
        else:
            request |= {"prompt": text, "logprobs": prm.top_logprobs}
        return {name: value for name, value in (request | (prm.fields or {})).items() if value is not None}

    def _answer(self, response: httpx2.Response, request: Mapping[str, Any]) -> Answer:
        if response.status_code != 200:
            return Answer(np.nan, 0)
        reply = response.json()
        logprobs = _first_token(reply["choices"][0].get("logprobs"))
        tokens = int(reply["usage"]["prompt_tokens"])
        if not all(value < 1 for value in logprobs.values()) or not 0 <= tokens < 2**31:
            raise IncompleteReplyError("its log-probabilities or its count of tokens are impossible")
        return Answer(self._log_odds(logprobs) if tokens <= self.prm.max_tokens else np.nan, tokens)

    def _log_odds(self, logprobs: Mapping[str, float]) -> float:
        """Return ln(p(Yes) / p(No)) of the first token. A word without a log-probability gets the largest possible."""
        server, right, wrong = f"The server {self.base_url}", self.prm.right, self.prm.wrong
        if not logprobs:
            raise PluginFailedError(
                f"{server} returned no log-probabilities, which the PRM '{self.prm.plugin_name}' needs. vLLM, SGLang "
                "and llama.cpp return them, and OpenAI does for models that do not reason. Use another server or "
                "model, or a 'checkpoint' in place of the server, which runs on this machine."
            )
        left_over = max(1 - sum(map(np.exp, logprobs.values())), _LEAST)
        bound = min(*logprobs.values(), np.log(left_over))
        stripped = [(token.strip(" "), value) for token, value in logprobs.items()]
        yes = [value for token, value in stripped if token in {word.strip(" ") for word in right}]
        no = [value for token, value in stripped if token in {word.strip(" ") for word in wrong}]
        if not yes and not no:
            likely = sorted(logprobs, key=logprobs.__getitem__, reverse=True)[:5]
            raise PluginFailedError(
                f"{server} answered with neither {right[0]!r} nor {wrong[0]!r}. Its most likely first "
                f"tokens are {', '.join(map(repr, likely))}. Set 'right' and 'wrong' "
                "to its words, ask for these words in 'template', or turn thoughts off with 'fields'."
            )
        return float(np.logaddexp.reduce(yes or [bound]) - np.logaddexp.reduce(no or [bound]))


def _first_token(logprobs: Mapping[str, Any] | None) -> dict[str, float]:
    """Return the log-probabilities of the first token of an answer by its text, in either form of OpenAI's."""
    reply = logprobs or {}
    for first_token in (reply.get("content") or ())[:1]:
        entries = (first_token, *(first_token.get("top_logprobs") or ()))
        return {entry["token"]: float(entry["logprob"]) for entry in entries}
    tops = reply.get("top_logprobs") or [{}]
    return {token: float(value) for token, value in (tops[0] or {}).items()}


def _scores(answers: Iterable[Answer]) -> PrefixScores:
    """The scores of a trajectory. A server has answered the question of the judge for each of its prefixes."""
    log_odds, tokens = zip(*answers, strict=True)
    logit = np.array(log_odds, dtype=np.float32)
    return PrefixScores(logit, scipy.special.expit(logit.astype(np.float64)), np.isnan(logit), sum(tokens))
