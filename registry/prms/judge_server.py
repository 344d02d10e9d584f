"""The server of a PRM `judge`: the log-odds of Yes against No as the first token of an answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from prmcal.errors import PluginFailedError
from prmcal.registry.llms.prompts import messages_of
from prmcal.registry.network import IncompleteReplyError
from prmcal.registry.served import Served

if TYPE_CHECKING:
    import httpx2

_LENGTH_REFUSED = re.compile(r"context[ _](length|size|window)", re.IGNORECASE)
"""The words of vLLM, SGLang, llama.cpp and OpenAI about a text that is too long."""
_LEAST = 1e-9
"""The least probability that is left for an answer that a server does not name."""


class Answer(NamedTuple):
    """The log-odds of Yes, NaN if the text is too long, and the number of tokens that were read."""

    log_odds: float
    tokens: int


@dataclass(eq=False, kw_only=True)
class JudgeServer(Served):
    """A language model behind OpenAI's interface that answers a judge, for any server with log-probabilities."""

    refused = "Check 'model', and that the server gives as many log-probabilities as 'top_logprobs' says."
    understood = _LENGTH_REFUSED

    judge_name: str
    """The name of the PRM in messages. The other fields are its arguments."""
    chat: bool
    system_prompt: str | None
    top_logprobs: int
    max_tokens: int
    right: Sequence[str]
    wrong: Sequence[str]
    fields: dict[str, Any] | None

    @property
    def path(self) -> str:
        """That of chats, or of texts."""
        return "/chat/completions" if self.chat else "/completions"

    def probe(self, text: str) -> None:
        """Ask with one text; see :meth:`prmcal.registry.served.ServerClient.probe`."""
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
        if self.chat:
            messages = [dict(message) for message in messages_of(text, self.system_prompt)]
            request |= {"messages": messages, "logprobs": True, "top_logprobs": self.top_logprobs}
        else:
            request |= {"prompt": text, "logprobs": self.top_logprobs}
        return {name: value for name, value in (request | (self.fields or {})).items() if value is not None}

    def _answer(self, response: httpx2.Response, request: Mapping[str, Any]) -> Answer:
        if response.status_code != 200:
            return Answer(np.nan, 0)
        reply = response.json()
        logprobs = _first_token(reply["choices"][0].get("logprobs"))
        tokens = int(reply["usage"]["prompt_tokens"])
        if not all(value < 1 for value in logprobs.values()) or not 0 <= tokens < 2**31:
            raise IncompleteReplyError("its log-probabilities or its count of tokens cannot be")
        return Answer(self._log_odds(logprobs) if tokens <= self.max_tokens else np.nan, tokens)

    def _log_odds(self, logprobs: Mapping[str, float]) -> float:
        server = f"The server {self.base_url}"
        if not logprobs:
            raise PluginFailedError(
                f"{server} returned no log-probabilities, which the PRM '{self.judge_name}' needs. vLLM, SGLang and "
                "llama.cpp return them, and OpenAI does for models that do not reason. Use another server or model, or "
                "a 'checkpoint' in place of the server, which runs on this machine."
            )
        left_over = max(1 - sum(map(np.exp, logprobs.values())), _LEAST)
        most = min(*logprobs.values(), np.log(left_over))
        yes, no = (
            [
                value
                for token, value in logprobs.items()
                if token.strip(" ") in {word.strip(" ") for word in words}
            ]
            for words in (self.right, self.wrong)
        )
        if not yes and not no:
            likely = sorted(logprobs, key=logprobs.__getitem__)[:-6:-1]
            raise PluginFailedError(
                f"{server} answered with neither {self.right[0]!r} nor {self.wrong[0]!r}. Its most likely first "
                f"tokens are {', '.join(map(repr, likely))}. Set 'right' and 'wrong' "
                "to its words, ask for these words in 'template', or turn thoughts off with 'fields'."
            )
        return float(np.logaddexp.reduce(yes or [most]) - np.logaddexp.reduce(no or [most]))


def _first_token(logprobs: Mapping[str, Any] | None) -> dict[str, float]:
    """Return the log-probabilities of the first token of an answer by its text, in either form of OpenAI's."""
    reply = logprobs or {}
    for first in (reply.get("content") or ())[:1]:
        return {each["token"]: float(each["logprob"]) for each in (first, *(first.get("top_logprobs") or ()))}
    tops = reply.get("top_logprobs") or [{}]
    return {token: float(value) for token, value in (tops[0] or {}).items()}
