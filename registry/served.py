"""Plugins behind one endpoint of a server: their common arguments, and their client, which asks over HTTP.

The client knows the address and the key, and sends many requests at a time.
"""

import asyncio
import logging
import os
import re
import ssl
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from prmcal.errors import PluginFailedError, PrmcalError
from prmcal.registry.contracts.plugin import Count, Plugin, Positive, errors_of
from prmcal.registry.messages import excerpt
from prmcal.registry.models.checkpoints import is_on_this_machine
from prmcal.registry.models.files import tokenizer_problems
from prmcal.registry.network import DEFAULT_PATIENCE, IncompleteReplyError, answered, policy, temporary

if TYPE_CHECKING:
    import httpx2


T = TypeVar("T")

_SHORTEST_SECRET = 6
"""Shorter keys, such as a word for a server that needs none, occur by chance. Texts keep them."""
_CONNECT_TIMEOUT = 30.0
_PROBE_TIMEOUT = 30.0
_UNTRUSTED = "Check 'base_url'. If the certificate is your own, name its file: export SSL_CERT_FILE=FILE."
_EXPIRED = "Its owner must renew it. If it is new, check the clock of this machine."
_KEY_ADVICE = "Set 'key_variable' to the environment variable that holds its key."


def _checked_address(url: str) -> str:
    address = urlsplit(url)
    secret = address.username or address.password or address.query
    if address.scheme not in ("http", "https") or not address.hostname or secret:
        raise ValueError("It must be an HTTP address without a password and a query, since addresses are stored.")
    return url


@cache
def _tls_context(make: Callable[[], ssl.SSLContext], *_: str | None) -> ssl.SSLContext:
    """Return how to check certificates, by the variables that name them. Reading them takes longer than a request."""
    return make()


def redacted(content: bytes, key: str | None) -> bytes:
    """Return a reply without the key: a server may repeat the header that it has in."""
    if key is None or len(key) < _SHORTEST_SECRET:
        return content
    return content.replace(key.encode(), b"[redacted]")


ADDRESS = Field(description="an address such as http://localhost:8000/v1, without a password in it")
Address = Annotated[str, AfterValidator(_checked_address), ADDRESS]
"""The annotation of a constructor argument that is the address of a server."""


@dataclass(frozen=True)
class ServerClient:
    """A client of the endpoint of a plugin. `timeout` and `patience` are the plugin's, or less for a probe."""

    plugin: "Served"
    timeout: float
    patience: float

    def ask(
        self, requests: Sequence[Mapping[str, Any]], read: "Callable[[httpx2.Response, Mapping[str, Any]], T]"
    ) -> list[T]:
        """Send requests, which are JSON bodies, and return the results of `read`, in the order of the requests.

        `read` gets a reply of status 200, or a known refusal, and its request. If it raises IncompleteReplyError, the
        request is sent again. Raises a NoAnswerError if a request fails for longer than the patience. The other
        requests are cancelled. Raises a PluginFailedError if the server refuses a request, or the key is not set.
        """
        replies = self._ask(requests, read)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(replies)
        # A notebook has a loop of its own, which would wait for itself.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, replies).result()

    def probe(self, request: Mapping[str, Any], read: "Callable[[httpx2.Response, Mapping[str, Any]], object]") -> None:
        """Raise the error of `ask` unless the server answers a request. It is sent once, with half a minute at most."""
        try:
            replace(self, patience=0.0, timeout=min(self.timeout, _PROBE_TIMEOUT)).ask([request], read)
        finally:
            answered(f"the server {self.plugin.base_url}")

    async def _ask(
        self, requests: Sequence[Mapping[str, Any]], read: "Callable[[httpx2.Response, Mapping[str, Any]], T]"
    ) -> list[T]:
        import httpx2
        from tenacity import AsyncRetrying

        concurrency = self.plugin.concurrency
        gate = asyncio.Semaphore(concurrency)
        whom = f"the server {self.plugin.base_url}"
        key = self._key()
        # Below, it repeats what servers say of the status.
        logging.getLogger("httpx2").setLevel(logging.WARNING)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        limits = httpx2.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
        timeout = httpx2.Timeout(None, connect=min(self.timeout, _CONNECT_TIMEOUT))
        context = _tls_context(httpx2.create_ssl_context, *map(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR")))
        async with httpx2.AsyncClient(headers=headers, timeout=timeout, limits=limits, verify=context) as client:

            async def send(request: Mapping[str, Any]) -> T:
                async with gate:
                    response = await self._post(client, key, request)
                    try:
                        return read(response, request)
                    except (IncompleteReplyError, PrmcalError):
                        raise
                    except Exception as error:
                        why = f"{type(error).__name__}: {error}"
                        raise IncompleteReplyError(
                            f"its reply does not fit the request ({why}): {excerpt(response.text)}"
                        ) from error

            async def send_patiently(request: Mapping[str, Any]) -> T:
                reply: T = await AsyncRetrying(**policy(whom, self.patience, whom))(send, request)
                answered(whom)
                return reply

            try:
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(send_patiently(request)) for request in requests]
            except ExceptionGroup as failures:
                raise failures.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _post(
        self, client: "httpx2.AsyncClient", key: str | None, request: Mapping[str, Any]
    ) -> "httpx2.Response":
        """Return the reply to a request, without the key. The time limit is for the whole reply."""
        import httpx2

        plugin = self.plugin
        url = f"{plugin.base_url.rstrip('/')}{plugin.path}"
        try:
            async with asyncio.timeout(self.timeout):
                received = await client.post(url, json=dict(request))
        except TimeoutError as error:
            raise TimeoutError(f"no whole reply in {self.timeout:g} s") from error
        except httpx2.ConnectError as error:
            if "CERTIFICATE_VERIFY_FAILED" not in str(error):
                raise
            advice = _EXPIRED if "expired" in str(error) else _UNTRUSTED
            raise PluginFailedError(f"The server {plugin.base_url} is not trusted: {error}. {advice}") from error
        status = received.status_code
        pause = {name: received.headers[name] for name in ("Retry-After",) if name in received.headers}
        response = httpx2.Response(status, headers=pause, content=redacted(received.content, key))
        text = received.headers["Location"] if received.has_redirect_location else response.text
        if temporary(status):
            raise IncompleteReplyError(f"it answered {status} {excerpt(text)}", response=response)
        if status != 200 and not (plugin.understood and plugin.understood.search(text)):
            raise PluginFailedError(
                f"The server {plugin.base_url} refused a request with {status}: {excerpt(text)}. {self._advice(status)}"
            )
        return response

    def _advice(self, status: int) -> str:
        variable = self.plugin.key_variable
        key = f"Check the key in the environment variable {variable}." if variable else _KEY_ADVICE
        if 300 <= status < 400:
            return "Requests are not sent on. Give the address that the server redirects to as 'base_url'."
        return {401: key, 403: key, 404: self.plugin.not_found}.get(status, self.plugin.refused)

    def _key(self) -> str | None:
        variable = self.plugin.key_variable
        if variable is None:
            return None
        key = os.environ.get(variable, "").strip()
        if not key:
            raise PluginFailedError(
                f"The environment variable {variable} is not set. Set it to the server's key: export {variable}=..."
            )
        return key


@dataclass(eq=False, kw_only=True)
class Served(Plugin):
    """The base of an LLM or a PRM that sends requests to a server. List this base before the contract."""

    not_found: ClassVar[str] = "Check 'base_url', which usually ends in /v1, and 'model'."
    """Advice if the server answers 404."""
    refused: ClassVar[str]
    """Advice if the server refuses a request with another status."""
    understood: ClassVar[re.Pattern[str] | None] = None
    """Matches a refusal that is no error: it is read like a reply."""

    base_url: Address
    """The address, such as ``http://localhost:8000/v1``. The path of the interface is appended."""
    model: str
    """The name of the model on the server."""
    weights: str = ""
    """A text that identifies the server's weights among those with the same name, such as a commit. It is part of the
    job keys."""
    key_variable: str | None = None
    """The environment variable with the server's key. The key itself is not an argument and is never stored."""
    concurrency: Count = 64
    """The number of parallel requests."""
    timeout: Positive = 600.0
    """The time limit of a request in seconds."""
    patience: Positive = DEFAULT_PATIENCE
    """The seconds for which a request is sent again, with growing pauses, after its first failure. A request is
    repeated if the server is down, slow, busy (429) or broken (5xx), or if its reply is incomplete. A ``Retry-After``
    of the server is respected."""

    @property
    @abstractmethod
    def path(self) -> str:
        """The path that is appended to `base_url`."""

    @abstractmethod
    def probe(self, question: str) -> None:
        """Send a request about a bare question by the client's `probe`, and raise its error."""

    def problems(self, solution_counts: Mapping[str, int]) -> list[PrmcalError]:
        """Also return problems: a tokenizer cannot be loaded, or the server does not answer for a bare question."""
        problems = super().problems(solution_counts)
        for checkpoint in self.checkpoints:
            problems += tokenizer_problems(checkpoint)
        if not problems and all(map(is_on_this_machine, self.checkpoints)):
            problems = errors_of(partial(self.probe, next(iter(solution_counts), "What is 6 times 7?")))
        return problems

    @property
    def client(self) -> ServerClient:
        """The client of the endpoint."""
        return ServerClient(self, self.timeout, self.patience)
