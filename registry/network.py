"""Plugins behind a network: failures that may pass, how a server is asked again, and requests over HTTP.

The harness calls every LLM and PRM through :func:`patiently`. So a plugin that raises because of its network is asked
again, with pauses, before its cells fail. A plugin that sends many requests in one call uses :class:`ServerClient`, so
that only the request that failed is sent again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from prmcal.errors import NoAnswerError, PluginFailedError, PrmcalError
from prmcal.registry.messages import causes_of, excerpt

if TYPE_CHECKING:
    import httpx2
    from tenacity import RetryCallState

T = TypeVar("T")

DEFAULT_PATIENCE = 300.0
"""Seconds: long enough for a server to restart and to load its model."""
LOGGER = "prmcal.network"
"""The logger that says that a server is asked again. Its lines are in the log of the run."""
FIRST_PAUSE = 1.0
"""Seconds before the second attempt, half of them at random. The pause doubles for each further attempt."""
_LONGEST_PAUSE = 60.0

_BUSY = 429
_TEMPORARY = frozenset({408, 425, _BUSY})
_CUT = "the server ended the connection: it was restarted, or it or something in between is overloaded"
_SLOW = "the server is too slow or hangs: it is overloaded, or the time limit is too short"
_LIMITED = "the server limits the rate of requests: send fewer at a time"
_UNREACHABLE = "nothing answers at the address: the server is not running, or the address is wrong"

# By name, so that no library is imported to compare its errors.
_BY_NAME = {
    "prmcal.IncompleteReplyError": "the server is overloaded, or it is not the kind of server that was expected",
    "socket.gaierror": "the name of the server is not known: it is misspelt, or this machine has no network",
    "builtins.ConnectionRefusedError": _UNREACHABLE,
    "builtins.TimeoutError": _SLOW,
    "builtins.ConnectionError": _CUT,
    "http.HTTPException": _CUT,
    "requests.ConnectionError": _CUT,
    "requests.ChunkedEncodingError": _CUT,
    "requests.Timeout": _SLOW,
    "aiohttp.ClientConnectionError": _CUT,
    "aiohttp.ClientPayloadError": _CUT,
    "openai.APIConnectionError": _CUT,
    **{
        f"{library}.{name}": cause
        for library in ("httpx", "httpx2")
        for name, cause in (
            ("ConnectError", _UNREACHABLE),
            ("NetworkError", _CUT),
            ("RemoteProtocolError", _CUT),
            ("TimeoutException", _SLOW),
        )
    },
}

# Downloads of models are repeated by their own library, and a model that is not there does not appear by waiting.
_OWN_PATIENCE = "huggingface_hub"

# Servers that did not answer for as long as they were asked. From then on each is asked only once, until it answers.
# Otherwise every shard would wait for the whole patience.
_gone: set[str] = set()
_quiet_until: dict[str, float] = {}


class IncompleteReplyError(Exception):
    """A server replied, but not with what it was asked for: `text` says what was wrong. Another attempt may succeed.

    `response` is the reply, with a ``status_code`` and ``headers``, if its status says that it is an error.
    """

    def __init__(self, text: str, response: Any = None) -> None:
        super().__init__(text)
        self.response = response


class _Networked(Protocol):
    patience: float
    plugin_name: str
    arguments: dict[str, Any]


class NetworkFailure(NamedTuple):
    """A failure that may pass: its likely cause in words, and the seconds that the server asks to wait, or 0."""

    cause: str
    wait: float = 0.0

    @classmethod
    def of(cls, error: BaseException) -> NetworkFailure | None:
        """Return why an error of a plugin may pass; None if another attempt would fail in the same way.

        An HTTP status decides, if the error or one that caused it has one: 408, 425, 429 and 5xx may pass. Otherwise
        it is a failure of the network if the error or one that caused it is one of Python's or of an HTTP library. An
        error of prmcal is final.
        """
        chain = list(causes_of(error))
        if isinstance(error, PrmcalError) or any(
            type(each).__module__.startswith(_OWN_PATIENCE) for each in chain
        ):
            return None
        for each in chain:
            response = getattr(each, "response", None)
            found = [
                getattr(place, name, None)
                for place in (response, each)
                for name in ("status_code", "status", "code")
            ]
            status = next((value for value in found if isinstance(value, int) and 400 <= value <= 599), None)
            if status is not None:
                if not temporary(status):
                    return None
                cause = (
                    f"the server has an error of its own ({status}): see its log" if status >= 500 else _SLOW
                )
                return cls(
                    _LIMITED if status == _BUSY else cause, _retry_after(response) or _retry_after(each)
                )
        causes = [cause for each in chain if (cause := _cause(each))]
        return cls(causes[-1]) if causes else None


def _policy(whom: str, seconds: float, key: str) -> dict[str, Any]:
    """The rules for asking a server again while its network fails, with pauses that double and are partly random.

    `seconds` count from the first failure. A ``Retry-After`` beyond them ends the attempts.
    """
    from tenacity import retry_if_exception

    failed_at: list[float] = []

    def stop(state: RetryCallState) -> bool:
        failed_at.append(time.monotonic())
        return key in _gone or failed_at[-1] - failed_at[0] + state.upcoming_sleep > seconds

    def note(state: RetryCallState) -> None:
        # Requests that wait at the same time are one line.
        if time.monotonic() >= _quiet_until.get(key, 0.0):
            _quiet_until[key] = time.monotonic() + state.upcoming_sleep
            logging.getLogger(LOGGER).warning(
                "%s: attempt %d failed (%s). The next one is in %.0f s.",
                whom,
                state.attempt_number,
                _described(_error(state)),
                state.upcoming_sleep,
            )

    def give_up(state: RetryCallState) -> None:
        _gone.add(key)
        error = _error(state)
        failure = NetworkFailure.of(error)
        assert failure is not None
        attempts = f"{state.attempt_number} attempt{'s' * (state.attempt_number > 1)}"
        raise NoAnswerError(
            f"{whom} gave no answer in {attempts} within {failed_at[-1] - failed_at[0]:.0f} s: {_described(error)}. "
            f"Likely cause: {failure.cause}."
        ) from error

    return {
        "retry": retry_if_exception(lambda error: NetworkFailure.of(error) is not None),
        "wait": _pause,
        "stop": stop,
        "before_sleep": note,
        "retry_error_callback": give_up,
    }


def patiently(plugin: _Networked, call: Callable[[], T]) -> T:
    """Return the result of a call of a plugin, which is repeated while its network fails.

    Raises a NoAnswerError if the network fails for longer than the plugin's `patience`.
    """
    from tenacity import Retrying

    key = f"{plugin.plugin_name} {plugin.arguments}"
    result = Retrying(**_policy("its server", plugin.patience, key))(call)
    _gone.discard(key)
    return result


def temporary(status: int) -> bool:
    """Return whether a request with this HTTP status may succeed later."""
    return status in _TEMPORARY or status >= 500


def _described(error: BaseException) -> str:
    text = excerpt(str(error))
    if isinstance(error, IncompleteReplyError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _error(state: RetryCallState) -> BaseException:
    error = state.outcome.exception() if state.outcome else None
    assert error is not None
    return error


def _pause(state: RetryCallState) -> float:
    doubled = min(_LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (state.attempt_number - 1))
    failure = NetworkFailure.of(_error(state))
    return max(doubled * random.uniform(0.5, 1.0), failure.wait if failure else 0.0)


def _cause(error: BaseException) -> str:
    """Return the likely cause of an error of the network; empty if it is another error."""
    names = (f"{cls.__module__.partition('.')[0]}.{cls.__name__}" for cls in type(error).__mro__)
    return next((_BY_NAME[name] for name in names if name in _BY_NAME), "")


def _retry_after(place: Any) -> float:
    """Return the seconds that a server asks to wait, from a number or a date; 0 if it does not say."""
    headers = getattr(place, "headers", None)
    text: Any = headers.get("Retry-After") if headers is not None else None
    with suppress(ValueError, TypeError):
        return max(0.0, float(text))
    with suppress(ValueError, TypeError):
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    return 0.0


_MOST_BYTES = 2**26
"""The largest reply. A hundred solutions of 32,000 tokens have a fifth of it."""
_SHORTEST_SECRET = 6
"""Shorter keys, such as a word for a server that needs none, occur by chance. Texts keep them."""
_CONNECT_TIMEOUT = 30.0
_PROBE_TIMEOUT = 30.0
_KEY_ADVICE = "Set 'key_variable' to the environment variable that holds its key."


def _checked_address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise ValueError("It is not an HTTP address, or one with a password, which would be stored.")
    return url


def redacted(text: str, secret: str | None) -> str:
    """Return a text without a secret, also where JSON or an address has escaped its characters."""
    if secret is None or len(secret) < _SHORTEST_SECRET:
        return text
    each = (rf"(?:\\?{re.escape(c)}|\\u{ord(c):04x}|%{ord(c):02x})" for c in secret)
    return re.sub("".join(each), "[redacted]", text, flags=re.IGNORECASE)


Address = Annotated[
    str,
    AfterValidator(_checked_address),
    Field(description="an address such as http://localhost:8000/v1, without a password in it"),
]
"""The annotation of a constructor argument that is the address of a server."""


@dataclass(frozen=True)
class ServerClient:
    """A client of one endpoint of a server. The numbers are those of :class:`prmcal.registry.served.Served`.

    `path` is appended to the address of the server. `key_variable` is the environment variable with the server's key.
    `not_found` and `refused` say what to do if the server answers 404, and if it refuses a request with another status.
    A refusal in which `understood` finds a match is no error: it is read like a reply.
    """

    base_url: str
    path: str
    key_variable: str | None
    concurrency: int
    timeout: float
    patience: float
    not_found: str
    refused: str
    understood: re.Pattern[str] | None = None

    def ask(
        self, requests: Sequence[Mapping[str, Any]], read: Callable[[httpx2.Response, Mapping[str, Any]], T]
    ) -> list[T]:
        """Return what is read from the reply to each request, a JSON body, in the order of the requests.

        `read` is called with a reply of status 200, or a refusal that is understood, and its request. If it raises
        IncompleteReplyError, the request is sent again. Raises a NoAnswerError if a request fails for longer than the
        patience. The other requests are cancelled. Raises a PluginFailedError if the server refuses a request, or the
        key is not set.
        """
        asked = self._ask(requests, read)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(asked)
        # A notebook has a loop of its own, which would wait for itself.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, asked).result()

    def probe(
        self, request: Mapping[str, Any], read: Callable[[httpx2.Response, Mapping[str, Any]], object]
    ) -> None:
        """Raise the error of `ask` unless the server answers a request. It is sent once, with half a minute at most."""
        try:
            replace(self, patience=0.0, timeout=min(self.timeout, _PROBE_TIMEOUT)).ask([request], read)
        finally:
            _gone.discard(f"the server {self.base_url}")

    async def _ask(
        self, requests: Sequence[Mapping[str, Any]], read: Callable[[httpx2.Response, Mapping[str, Any]], T]
    ) -> list[T]:
        import httpx2
        from tenacity import AsyncRetrying

        gate = asyncio.Semaphore(self.concurrency)
        whom = f"the server {self.base_url}"
        key = self._key()
        headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {key}"} if key else {})
        limits = httpx2.Limits(max_connections=self.concurrency, max_keepalive_connections=self.concurrency)
        timeout = httpx2.Timeout(None, connect=min(self.timeout, _CONNECT_TIMEOUT))
        async with httpx2.AsyncClient(headers=headers, timeout=timeout, limits=limits) as client:

            async def one(request: Mapping[str, Any]) -> T:
                async with gate:
                    response = await self._post(client, key, request)
                    try:
                        return read(response, request)
                    except (IncompleteReplyError, PrmcalError):
                        raise
                    except Exception as error:
                        why = f"{type(error).__name__}: {error}"
                        raise IncompleteReplyError(
                            f"its reply is not what was asked for ({why}): {excerpt(response.text)}"
                        ) from error

            async def patient(request: Mapping[str, Any]) -> T:
                result: T = await AsyncRetrying(**_policy(whom, self.patience, whom))(one, request)
                _gone.discard(whom)
                return result

            try:
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(patient(each)) for each in requests]
            except ExceptionGroup as failures:
                raise failures.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _post(
        self, client: httpx2.AsyncClient, key: str | None, request: Mapping[str, Any]
    ) -> httpx2.Response:
        """Return the reply to a request, without the key: a server may repeat the header that it has in.

        The time limit is that of the whole reply, also if it comes byte by byte.
        """
        import httpx2

        url, content = f"{self.base_url.rstrip('/')}{self.path}", bytearray()
        try:
            async with (
                asyncio.timeout(self.timeout),
                client.stream("POST", url, json=dict(request)) as streamed,
            ):
                if (encoding := streamed.headers.get("content-encoding", "identity").lower()) != "identity":
                    raise IncompleteReplyError(f"its reply is compressed ({excerpt(encoding)}), unasked")
                async for piece in streamed.aiter_raw():
                    content += piece
                    if len(content) > _MOST_BYTES:
                        raise PluginFailedError(
                            f"The server {self.base_url} sent a reply of more than {_MOST_BYTES / 2**20:.0f} MiB. The "
                            "rest was not read. Check that it is the kind of server that the plugin expects."
                        )
        except TimeoutError as error:
            raise TimeoutError(f"no whole reply in {self.timeout:g} s") from error
        status = streamed.status_code
        clean = redacted(content.decode(errors="surrogateescape"), key).encode(errors="surrogateescape")
        pause = {name: streamed.headers[name] for name in ("Retry-After",) if name in streamed.headers}
        response = httpx2.Response(status, headers=pause, content=clean)
        text = response.text
        if temporary(status):
            raise IncompleteReplyError(f"it answered {status} {excerpt(text)}", response=response)
        if status != 200 and not (self.understood and self.understood.search(text)):
            raise PluginFailedError(
                f"The server {self.base_url} refused a request with {status}: {excerpt(text)}. {self._advice(status)}"
            )
        return response

    def _advice(self, status: int) -> str:
        key = f"Check the key in the environment variable {self.key_variable}."
        key = key if self.key_variable else _KEY_ADVICE
        return {401: key, 403: key, 404: self.not_found}.get(status, self.refused)

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
