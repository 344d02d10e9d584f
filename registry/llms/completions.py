"""Send requests to a completions server in parallel."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from prmcal.errors import PluginFailedError
from prmcal.registry.contracts.data import Completion, FinishReason
from prmcal.registry.excerpts import excerpt
from prmcal.registry.network import IncompleteReplyError, Patience, temporary

if TYPE_CHECKING:
    import httpx2

__all__ = ["CompletionsClient"]

_CONNECT_TIMEOUT = 30.0
_STOPPED_BY = ("stop_reason", "matched_stop")
"""The fields in which vLLM and SGLang return a stop string. They are null or a token's id at an end token."""


@dataclass(frozen=True)
class CompletionsClient:
    """A client of a completions server. Its numbers are those of :class:`prmcal.registry.llms.openai.OpenAILLM`."""

    base_url: str
    key: str | None
    concurrency: int
    timeout: float
    patience: float

    async def complete(self, requests: Sequence[Mapping[str, Any]]) -> list[Completion]:
        """Return the completion of each request, in the order of the requests.

        Raises
        ------
        NoAnswerError
            If a request fails for longer than the patience. The other requests are cancelled.
        PluginFailedError
            If the server refuses a request.
        """
        import httpx2

        gate = asyncio.Semaphore(self.concurrency)
        patience = Patience(f"the server {self.base_url}", self.patience)
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        limits = httpx2.Limits(max_connections=self.concurrency, max_keepalive_connections=self.concurrency)
        timeout = httpx2.Timeout(self.timeout, connect=min(self.timeout, _CONNECT_TIMEOUT))
        async with httpx2.AsyncClient(headers=headers, timeout=timeout, limits=limits) as client:

            async def one(request: Mapping[str, Any]) -> Completion:
                async with gate:
                    return await self._attempt(client, request)

            try:
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(patience.ask_async(partial(one, each))) for each in requests]
            except ExceptionGroup as failures:
                raise failures.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _attempt(self, client: httpx2.AsyncClient, request: Mapping[str, Any]) -> Completion:
        response = await client.post(f"{self.base_url.rstrip('/')}/completions", json=dict(request))
        status = response.status_code
        if temporary(status):
            raise IncompleteReplyError(f"it answered {status} {excerpt(response.text)}", response=response)
        if status != 200:
            raise PluginFailedError(
                f"The server {self.base_url} refused a request with {status}: {excerpt(response.text)}. "
                f"{_advice(status)}"
            )
        return _completion(response, request)


def _completion(response: httpx2.Response, request: Mapping[str, Any]) -> Completion:
    try:
        reply = response.json()
        choice = reply["choices"][0]
        text, reason = choice["text"], choice["finish_reason"]
        tokens, prompt = (
            int(reply["usage"]["completion_tokens"]),
            int(reply["usage"].get("prompt_tokens") or 0),
        )
    except (ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise IncompleteReplyError(
            f"its reply has no completion with usage ({type(error).__name__}: {error}): {excerpt(response.text)}"
        ) from error
    if not isinstance(text, str) or reason not in ("stop", "length"):
        raise IncompleteReplyError(f"it did not finish a completion (finish_reason {reason!r})")
    stops = request.get("stop", ())
    for stop in stops:
        text = text.partition(stop)[0]
    return Completion(text, tokens, _finish_reason(choice, bool(stops)), prompt)


def _finish_reason(choice: Mapping[str, Any], stops: bool) -> FinishReason:
    """The reason of a finished choice. `stops` is whether the request has stop strings.

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
    return "stop" if choice.get("text") else "end"


def _advice(status: int) -> str:
    return {
        401: "Set 'key_variable' to the environment variable that holds its key.",
        403: "Set 'key_variable' to the environment variable that holds its key.",
        404: "Check 'base_url', which usually ends in /v1, and 'model'.",
    }.get(status, "Check 'model', and that max_tokens fits the context of the server.")
