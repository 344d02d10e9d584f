"""The PRM `judge`: a language model on a server that is asked whether a solution will be right."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import scipy  # its parts are imported when they are used
from pydantic import Field

from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.data import PrefixScores, ScoringRequest
from prmcal.registry.contracts.models import PRM
from prmcal.registry.contracts.plugin import Count
from prmcal.registry.llms.prompts import messages_of
from prmcal.registry.network import IncompleteReplyError
from prmcal.registry.prms.generative import NO, WILL_IT_BE_RIGHT, YES, check_template, check_words, filled
from prmcal.registry.prms.tokens import steps_read
from prmcal.registry.served import Served

if TYPE_CHECKING:
    import httpx2

Words = Annotated[tuple[str, ...], Field(min_length=1)]

_LENGTH_REFUSED = re.compile(r"context[ _](length|size|window)", re.IGNORECASE)
"""The words of vLLM, SGLang, llama.cpp and OpenAI about a text that is too long."""
_LEAST = 1e-9
"""The least probability that is left for an answer that a server does not name."""
_OF_SERVER = ("base_url", "key_variable", "concurrency", "timeout")


@dataclass(eq=False, kw_only=True)
class JudgePRM(Served, PRM):
    """A language model behind OpenAI's interface that answers Yes or No, for any server with log-probabilities.

    It is `generative` on a server, without verifications: the log-odds are those of Yes against No as the first token
    of the answer. A server names only the most likely tokens. An answer that is not among them has at most the
    probability of the last one, and at most what all of them leave over. It is taken to have the lower of the two.

    Notes
    -----
    The server counts the tokens. A prefix that it refuses for its length, or that has more than `max_tokens`, is
    flagged. Some servers, such as Ollama, cut long texts silently. Set `max_tokens` below the context of these.

    Only `generative` has hidden states, so calibrators that read them or fine-tune the PRM need it.
    """

    citation = "Zhang et al. (2025), ICLR, arXiv:2408.15240"
    deterministic = False
    whole_sequences = True
    refused = "Check 'model', and that the server gives as many log-probabilities as 'top_logprobs' says."
    understood = _LENGTH_REFUSED

    template: str = WILL_IT_BE_RIGHT
    right: Words = YES
    wrong: Words = NO
    """As in the PRM `generative`. A space in front of an answer does not count."""
    chat: bool = True
    """True if the question is a user's message. Otherwise the model completes it as it is."""
    system_prompt: str | None = None
    """The system message of the chat. By default there is none."""
    top_logprobs: Annotated[int, Field(ge=1, le=1000)] = 20
    """The number of tokens that the server names. Many servers name at most 20, and some at most 5."""
    fields: dict[str, Any] | None = None
    """Further fields of a request, such as ``chat_template_kwargs: {enable_thinking: false}`` for a reasoning model.
    With null, a field is left out."""
    max_tokens: Count = 4096
    """Maximum length of a question about a prefix in tokens. A longer one is flagged, never cut."""
    read_thoughts: bool = True
    """As in the PRM `generative`."""

    def check_arguments(self) -> None:
        """Raise an error if the template leaves out a part of the prefix, or an answer is Yes and No."""
        check_template(self.template)
        check_words(self.right, self.wrong)

    @property
    def path(self) -> str:
        """That of chats, or of texts."""
        return "/chat/completions" if self.chat else "/completions"

    def probe(self, question: str) -> None:
        """Ask about a bare question; see :meth:`Served.probe`."""
        self.client.probe(self._request(filled(self.template, question, ())), self._answer)

    def identity(self) -> dict[str, Any]:
        """Return the identity: the model, and what it is asked. The server is not part of it."""
        known = super().identity()
        known["arguments"] = {k: v for k, v in known["arguments"].items() if k not in _OF_SERVER}
        return known

    def score(self, question: str, trajectories: Sequence[Sequence[str]]) -> list[PrefixScores]:
        """Score all prefixes of some trajectories of one question; see :meth:`prmcal.PRM.score`."""
        request = ScoringRequest(question, tuple(tuple(steps) for steps in trajectories))
        return self.score_batch([request])[0]

    def score_batch(self, requests: Sequence[ScoringRequest]) -> list[list[PrefixScores]]:
        """Score several questions together; see :meth:`prmcal.PRM.score_batch`.

        Raises a NoAnswerError if a request fails for longer than the patience. Raises a PluginFailedError if the server
        refuses a request, gives no log-probabilities, or answers with neither Yes nor No.
        """
        texts = [
            [
                [
                    filled(self.template, each.question, steps_read(prefix, self.read_thoughts))
                    for prefix in each.prefixes(steps)
                ]
                for steps in each.trajectories
            ]
            for each in requests
        ]
        distinct = list(dict.fromkeys(text for each in texts for prefixes in each for text in prefixes))
        answers = self.client.ask([self._request(text) for text in distinct], self._answer)
        found = dict(zip(distinct, answers, strict=True))
        return [[_scores([found[text] for text in prefixes]) for prefixes in each] for each in texts]

    def _request(self, text: str) -> dict[str, Any]:
        known: dict[str, Any] = {"model": self.model, "max_tokens": 1}
        # Some servers divide the logits by the temperature before they take log-probabilities.
        known |= {"temperature": 1.0, "top_p": 1.0}
        if self.chat:
            messages = [dict(each) for each in messages_of(text, self.system_prompt)]
            known |= {"messages": messages, "logprobs": True, "top_logprobs": self.top_logprobs}
        else:
            known |= {"prompt": text, "logprobs": self.top_logprobs}
        return {name: value for name, value in (known | (self.fields or {})).items() if value is not None}

    def _answer(self, response: httpx2.Response, request: Mapping[str, Any]) -> tuple[float, int]:
        """Return the log-odds, NaN if the text is too long, and the number of tokens that were read."""
        if response.status_code != 200:
            return np.nan, 0
        reply = response.json()
        known = _first_token(reply["choices"][0].get("logprobs"))
        tokens = int(reply["usage"]["prompt_tokens"])
        if not all(value < 1 for value in known.values()) or not 0 <= tokens < 2**31:
            raise IncompleteReplyError("its log-probabilities or its count of tokens cannot be")
        return (self._log_odds(known) if tokens <= self.max_tokens else np.nan), tokens

    def _log_odds(self, known: Mapping[str, float]) -> float:
        server = f"The server {self.base_url}"
        if not known:
            raise PluginFailedError(
                f"{server} returned no log-probabilities, which the PRM '{self.plugin_name}' needs. vLLM, SGLang and "
                "llama.cpp return them, and OpenAI does for models that do not reason. Use another server or model, or "
                "the PRM 'generative', which runs a model on this machine."
            )
        left_over = max(1 - sum(map(np.exp, known.values())), _LEAST)
        most = min(*known.values(), np.log(left_over))
        yes, no = (
            [
                value
                for token, value in known.items()
                if token.strip(" ") in {word.strip(" ") for word in words}
            ]
            for words in (self.right, self.wrong)
        )
        if not yes and not no:
            raise PluginFailedError(
                f"{server} answered with neither {self.right[0]!r} nor {self.wrong[0]!r}. Its most likely first tokens "
                f"are {', '.join(map(repr, sorted(known, key=known.__getitem__)[:-6:-1]))}. Set 'right' and 'wrong' "
                "to its words, ask for these words in 'template', or turn thoughts off with 'fields'."
            )
        return float(np.logaddexp.reduce(yes or [most]) - np.logaddexp.reduce(no or [most]))


def _first_token(logprobs: Mapping[str, Any] | None) -> dict[str, float]:
    """Return the log-probabilities of the first token of an answer by its text, in either form of OpenAI's."""
    known = logprobs or {}
    for first in (known.get("content") or ())[:1]:
        return {each["token"]: float(each["logprob"]) for each in (first, *(first.get("top_logprobs") or ()))}
    tops = known.get("top_logprobs") or [{}]
    return {token: float(value) for token, value in (tops[0] or {}).items()}


def _scores(answers: Sequence[tuple[float, int]]) -> PrefixScores:
    """Return the scores of a trajectory by the answers about its prefixes."""
    logit = np.array([log_odds for log_odds, _ in answers], dtype=np.float32)
    tokens = sum(count for _, count in answers)
    return PrefixScores(logit, scipy.special.expit(logit.astype(np.float64)), np.isnan(logit), tokens)
