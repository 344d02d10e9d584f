"""A memory for the results of functions of arrays, so that strategies and metrics compute common work once.

:func:`remembered` compares arguments by content. Strategies of one LLM and PRM share most of their work: votes are
counted alike by all rules that answer with the most frequent answer, and the curve of a rule follows the same draws as
the rule itself. The functions that do this work get the values of one question, which are small. The results of these
functions are large, and are kept as long as there is room.

:func:`reuse_last` compares the weights of a bootstrap by identity. Metrics of the same questions get the same arrays.
"""

import pickle
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import fields, is_dataclass
from functools import wraps
from hashlib import blake2b
from threading import Lock
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from prmcal.arrays import Floats

P = ParamSpec("P")
R = TypeVar("R")

LIMIT = 384 * 2**20
"""The bytes that all remembered results of a process may take."""
_DIGEST_BYTES = 20
_SMALL_BYTES = 500
"""The bytes of an entry besides its arrays."""
_LAST_RESULTS = 3
"""The largest number of results that a function keeps, such as one for a bootstrap and one for ones."""


class Memory:
    """Results by the functions and arguments that they come from. The least recently used ones are forgotten first.

    Several threads may use it. If two need the same result at the same time, both compute it. All results
    together take `used_bytes`, at most `limit` bytes. A larger result is not kept.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used_bytes = 0
        self._results: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._lock = Lock()

    def recall(self, key: Hashable, compute: Callable[[], R]) -> R:
        """Return the result with this key. Compute it if it is not known. Its arrays cannot be written to."""
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return cast(R, self._results[key][0])
        value = compute()
        size = _SMALL_BYTES
        for array in _arrays_in(value):
            array.flags.writeable = False
            size += array.base.nbytes if isinstance(array.base, np.ndarray) else array.nbytes
        with self._lock:
            if size <= self.limit and key not in self._results:
                self._results[key] = value, size
                self.used_bytes += size
            while self.used_bytes > self.limit:
                self.used_bytes -= self._results.popitem(last=False)[1][1]
        return value


_memory = Memory(LIMIT)


def remembered(function: Callable[P, R], memory: Memory = _memory) -> Callable[P, R]:
    """Remember the results of a function of arrays, within one limit of memory for all functions of a process.

    The function takes and returns arrays, numbers, strings, None, and tuples and frozen dataclasses of these. It must
    be pure, and its result must not contain its arguments, since the arrays of a result are made read-only. Arguments
    are compared by content, which takes about a millisecond per megabyte. So the function should be slow, and its
    arguments small. By default, the memory is the process's.
    """

    @wraps(function)
    def recall_or_compute(*args: P.args, **kwargs: P.kwargs) -> R:
        key = function, content_digest(args, tuple(sorted(kwargs.items())))
        return memory.recall(key, lambda: function(*args, **kwargs))

    return recall_or_compute


def reuse_last(function: Callable[[Floats], R]) -> Callable[[Floats], R]:
    """Let a function keep its last results for read-only weights, such as the weights of a bootstrap.

    All metrics of the same questions get the same array of such weights, and the same array of ones. So a metric and
    its corrected form do their common work once. A result must not be changed.
    """
    last_results: list[tuple[Floats, R]] = []

    def called(weights: Floats) -> R:
        for last_weights, value in last_results:
            if last_weights is weights:
                return value
        value = function(weights)
        if not weights.flags.writeable:
            last_results[:] = [*last_results[1 - _LAST_RESULTS :], (weights, value)]
        return value

    return called


def content_digest(*values: object) -> bytes:
    """Return a digest of arrays, numbers, strings, None, and tuples and dataclasses of these.

    Values that differ, also in type only, have different digests.
    """
    # From protocol 5 on, arrays that cannot be written to differ from others.
    return blake2b(pickle.dumps(values, protocol=4), digest_size=_DIGEST_BYTES).digest()


def _arrays_in(value: object) -> Iterator[NDArray[Any]]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple):
        for entry in value:
            yield from _arrays_in(entry)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _arrays_in(getattr(value, field.name))
