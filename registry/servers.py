"""Ask a server for models over HTTP: many requests in parallel, each of them repeated while its network fails."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from prmcal.errors import PluginFailedError
from prmcal.registry.excerpts import excerpt
from prmcal.registry.network import IncompleteReplyError, Patience, temporary

if TYPE_CHECKING:
    import httpx2

__all__ = ["Address", "ServerClient"]

T = TypeVar("T")

_CONNECT_TIMEOUT = 30.0
_KEY_ADVICE = "Set 'key_variable' to the environment variable that holds its key."


def _checked_address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("It is not an HTTP address.")
    return url


Address = Annotated[
    str,
    AfterValidator(_checked_address),
    Field(description="an address such as http://localhost:8000/v1"),
]
"""The annotation of a constructor argument that is the address of a server."""


@dataclass(frozen=True)
class ServerClient:
    """A client of one endpoint of a server. The numbers are those of :class:`prmcal.registry.llms.openai.OpenAILLM`.

    Parameters
    ----------
    base_url, path : str
        The address of the server, and what is appended to it.
    key_variable : str or None
        The environment variable with the server's key.
    concurrency : int
    timeout, patience : float
    not_found, refused : str
        What to do if the server answers 404, and if it refuses a request with another status.
    """

    base_url: str
    path: str
    key_variable: str | None
    concurrency: int
    timeout: float
    patience: float
    not_found: str
    refused: str

    def ask(
        self, requests: Sequence[Mapping[str, Any]], read: Callable[[httpx2.Response, Mapping[str, Any]], T]
    ) -> list[T]:
        """Return what is read from the reply to each request, in the order of the requests.

        Parameters
        ----------
        requests : sequence of mapping
            The JSON bodies.
        read : callable
            Called with a reply of status 200 and its request. If it raises IncompleteReplyError, the request is sent
            again.

        Raises
        ------
        NoAnswerError
            If a request fails for longer than the patience. The other requests are cancelled.
        PluginFailedError
            If the server refuses a request, or the key is not set.
        """
        asked = self._ask(requests, read)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(asked)
        # A notebook has a loop of its own, which would wait for itself.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, asked).result()

    async def _ask(
        self, requests: Sequence[Mapping[str, Any]], read: Callable[[httpx2.Response, Mapping[str, Any]], T]
    ) -> list[T]:
        import httpx2

        gate = asyncio.Semaphore(self.concurrency)
        patience = Patience(f"the server {self.base_url}", self.patience)
        key = self._key()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        limits = httpx2.Limits(max_connections=self.concurrency, max_keepalive_connections=self.concurrency)
        timeout = httpx2.Timeout(self.timeout, connect=min(self.timeout, _CONNECT_TIMEOUT))
        async with httpx2.AsyncClient(headers=headers, timeout=timeout, limits=limits) as client:

            async def one(request: Mapping[str, Any]) -> T:
                async with gate:
                    return read(await self._post(client, request), request)

            try:
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(patience.ask_async(partial(one, each))) for each in requests]
            except ExceptionGroup as failures:
                raise failures.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _post(self, client: httpx2.AsyncClient, request: Mapping[str, Any]) -> httpx2.Response:
        response = await client.post(f"{self.base_url.rstrip('/')}{self.path}", json=dict(request))
        status = response.status_code
        if temporary(status):
            raise IncompleteReplyError(f"it answered {status} {excerpt(response.text)}", response=response)
        if status != 200:
            raise PluginFailedError(
                f"The server {self.base_url} refused a request with {status}: {excerpt(response.text)}. "
                f"{self._advice(status)}"
            )
        return response

    def _advice(self, status: int) -> str:
        return {401: _KEY_ADVICE, 403: _KEY_ADVICE, 404: self.not_found}.get(status, self.refused)

    def _key(self) -> str | None:
        if self.key_variable is None:
            return None
        key = os.environ.get(self.key_variable)
        if not key:
            raise PluginFailedError(
                f"The environment variable {self.key_variable} is not set. Set it to the server's key: "
                f"export {self.key_variable}=..."
            )
        return key
