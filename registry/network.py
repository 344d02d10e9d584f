"""Plugins behind a network: failures that may pass, and repeated calls.

The harness calls every LLM and PRM through :func:`patiently`. So the call of a plugin that raises because of its
network is repeated, with pauses, before its cells fail. A plugin that sends many requests in one call uses
:class:`prmcal.registry.served.ServerClient`, so that only the request that failed is sent again.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from prmcal.errors import NoAnswerError, PrmcalError
from prmcal.registry.messages import causes_of, excerpt

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")

DEFAULT_PATIENCE = 300.0
"""Seconds: long enough for a server to restart and to load its model."""
LOGGER = "prmcal.network"
"""The logger of repeated requests. Its lines are in the log of the run."""
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
    "ssl.SSLError": "the server does not speak https, or it ended the connection",
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
    """A server gave a wrong reply: `text` is the reason. Another attempt may succeed.

    `response` is the reply, with a ``status_code`` and ``headers``, if its status is an error.
    """

    def __init__(self, text: str, response: Any = None) -> None:
        super().__init__(text)
        self.response = response


class NetworkFailure(NamedTuple):
    """A failure that may pass: its likely cause in words, and the pause that the server asks for, in seconds, or 0."""

    cause: str
    wait: float = 0.0

    @classmethod
    def of(cls, error: BaseException) -> NetworkFailure | None:
        """Return why an error of a plugin may pass; None if another attempt would fail in the same way.

        If the error or one of its causes has an HTTP status, the status decides: 408, 425, 429 and 5xx may pass.
        Otherwise it is a failure of the network if the error or one of its causes is an error of the network of Python
        or of an HTTP library. An error of prmcal is final.
        """
        chain = list(causes_of(error))
        if isinstance(error, PrmcalError) or any(type(link).__module__.startswith(_OWN_PATIENCE) for link in chain):
            return None
        for link in chain:
            response = getattr(link, "response", None)
            codes = [
                getattr(source, name, None) for source in (response, link) for name in ("status_code", "status", "code")
            ]
            status = next((value for value in codes if isinstance(value, int) and 400 <= value <= 599), None)
            if status is not None:
                if not temporary(status):
                    return None
                cause = f"the server has an error of its own ({status}): see its log" if status >= 500 else _SLOW
                return cls(_LIMITED if status == _BUSY else cause, _retry_after(response) or _retry_after(link))
        causes = [cause for link in chain if (cause := _cause(link))]
        return cls(causes[-1]) if causes else None


def policy(whom: str, seconds: float, key: str) -> dict[str, Any]:
    """Return the rules for asking a server again while its network fails.

    Pauses double, and are partly random. `seconds` count from the first failure. A ``Retry-After`` beyond them ends the
    attempts.
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
                _description(_error(state)),
                state.upcoming_sleep,
            )

    def give_up(state: RetryCallState) -> None:
        _gone.add(key)
        error = _error(state)
        failure = NetworkFailure.of(error)
        assert failure is not None
        attempts = f"{state.attempt_number} attempt{'s' * (state.attempt_number > 1)}"
        raise NoAnswerError(
            f"{whom} gave no answer in {attempts} within {failed_at[-1] - failed_at[0]:.0f} s: {_description(error)}. "
            f"Likely cause: {failure.cause}."
        ) from error

    return {
        "retry": retry_if_exception(lambda error: NetworkFailure.of(error) is not None),
        "wait": _pause,
        "stop": stop,
        "before_sleep": note,
        "retry_error_callback": give_up,
    }


def patiently(plugin: Any, call: Callable[[], T], seconds: float | None = None) -> T:
    """Call a plugin, again while its network fails, and return the result.

    Raises a NoAnswerError if the network fails for longer than the plugin's `patience`, or than some `seconds`.
    """
    from tenacity import Retrying

    key = f"{plugin.plugin_name} {plugin.arguments}"
    value = Retrying(**policy("its server", plugin.patience if seconds is None else seconds, key))(call)
    answered(key)
    return value


def answered(key: str) -> None:
    """Note that a server answers, so that requests are repeated when it fails the next time."""
    _gone.discard(key)


def temporary(status: int) -> bool:
    """Return whether a request with this HTTP status may succeed later."""
    return status in _TEMPORARY or status >= 500


def _description(error: BaseException) -> str:
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
    """Return the seconds of a server's ``Retry-After``, which is a number or a date; 0 without it."""
    headers = getattr(place, "headers", None)
    text: Any = headers.get("Retry-After") if headers is not None else None
    with suppress(ValueError, TypeError):
        return max(0.0, float(text))
    with suppress(ValueError, TypeError):
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    return 0.0
