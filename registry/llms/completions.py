"""LLMs behind servers with OpenAI's interfaces: one completion per request, and many requests in parallel."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from prmcal.registry.contracts.data import Completion, FinishReason, Prefix, Sampling
from prmcal.registry.contracts.llm import LLM
from prmcal.registry.excerpts import excerpt
from prmcal.registry.llms.seeds import completion_seed
from prmcal.registry.network import IncompleteReplyError
from prmcal.registry.servers import ServerClient

if TYPE_CHECKING:
    import httpx2

__all__ = ["ServedLLM"]

_STOPPED_BY = ("stop_reason", "matched_stop")
"""The fields in which vLLM and SGLang return a stop string. They are null or a token's id at an end token."""


class ServedLLM(LLM):
    """The base of LLMs behind a server. A subclass says how a prefix is asked for, and where the text of a reply is.

    Attributes
    ----------
    path : str
        What is appended to `base_url`.
    """

    path: ClassVar[str]

    base_url: str
    model: str
    concurrency: int
    timeout: float

    @abstractmethod
    def asked(self, prefix: Prefix) -> dict[str, Any]:
        """Return the fields of a request that hold a prefix, such as ``prompt``."""

    @abstractmethod
    def text_of(self, choice: Mapping[str, Any], request: Mapping[str, Any]) -> str:
        """Return the text of a finished choice of the reply to a request, which still ends with its stop string."""

    def generate(
        self, prefixes: Sequence[Prefix], n: int, sampling: Sampling, seed: int
    ) -> list[list[Completion]]:
        """Sample `n` completions of each prefix; see :meth:`prmcal.LLM.generate`.

        Raises
        ------
        NoAnswerError
            If a request fails for longer than the patience.
        PluginFailedError
            If the server refuses a request.
        """
        requests = []
        for index, prefix in enumerate(prefixes):
            asked = self.asked(prefix)
            for sample in range(n):
                requests.append(
                    {
                        "model": self.model,
                        **asked,
                        "n": 1,
                        "temperature": sampling.temperature,
                        "top_p": sampling.top_p,
                        "max_tokens": sampling.max_tokens,
                        "seed": completion_seed(seed, index, sample),
                        **({"stop": list(sampling.stop)} if sampling.stop else {}),
                    }
                )
        client = ServerClient(
            self.base_url,
            self.path,
            self.key_variable,
            self.concurrency,
            self.timeout,
            self.patience,
            not_found="Check 'base_url', which usually ends in /v1, and 'model'.",
            refused="Check 'model', and that max_tokens fits the context of the server.",
        )
        completions = client.ask(requests, self._completion)
        return [completions[start : start + n] for start in range(0, len(prefixes) * n, n)]

    def _completion(self, response: httpx2.Response, request: Mapping[str, Any]) -> Completion:
        try:
            reply = response.json()
            choice = reply["choices"][0]
            reason = choice["finish_reason"]
            text = self.text_of(choice, request)
            tokens, prompt = (
                int(reply["usage"]["completion_tokens"]),
                int(reply["usage"].get("prompt_tokens") or 0),
            )
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
            raise IncompleteReplyError(
                f"its reply has no completion with usage ({type(error).__name__}: {error}): {excerpt(response.text)}"
            ) from error
        if not isinstance(text, str) or reason not in ("stop", "length"):
            raise IncompleteReplyError(f"it did not finish a completion (finish_reason {reason!r})")
        stops = request.get("stop", ())
        why = _finish_reason(choice, text, bool(stops))
        for stop in stops:
            text = text.partition(stop)[0]
        return Completion(text, tokens, why, prompt)


def _finish_reason(choice: Mapping[str, Any], text: str, stops: bool) -> FinishReason:
    """The reason of a finished choice with a text. `stops` is whether the request has stop strings.

    A server that does not say what stopped the LLM is taken to mean a stop string, unless the text is empty: a search
    would ask again and again for a step that never comes.
    """
    if choice["finish_reason"] == "length":
        return "length"
    if not stops:
        return "end"
    for name in _STOPPED_BY:
        if name in choice:
            return "stop" if isinstance(choice[name], str) else "end"
    return "stop" if text else "end"
