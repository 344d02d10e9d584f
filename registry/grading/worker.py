"""The program that compares mathematics. It reads requests as JSON lines on stdin, and writes one word each to stdout.

``prmcal.registry.grading.processes`` runs it as a file. The process that reads the requests does not evaluate them. It
forks a process that compares, and replaces the fork when it exceeds its limits. The words are:

- ``equal`` and ``different``;
- ``over``: the comparison exceeded its limit on processor time or memory;
- ``failed``: the fork got no processor time in all attempts, or was killed each time.
"""

import contextlib
import json
import os
import resource
import select
import signal
import sys
from functools import lru_cache
from typing import Any, NoReturn

_ATTEMPTS = 3
_MORE_PATIENCE = 4
"""The patience of each attempt, divided by the patience of the one before."""

_REFUSED = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.", "socket.", "ctypes.", "shutil.")


_DIGITS = 60
_EXACT, _ROUNDED = 1e-50, 1e-12
"""The largest relative difference of two equal numbers: if both are exact, and if one is a rounded decimal."""
_PLACES = ((3, 7), (-5, 11), (13, -17), (-19, -23))


def _equal(answer: str, reference: str) -> bool:
    """Return whether math-verify finds two LaTeX texts equal. Only its LaTeX parser is used: no code is evaluated."""
    import math_verify
    from sympy import Eq, Expr, Set, simplify

    answer_value, reference_value = _parsed(answer), _parsed(reference)
    if answer_value is None or reference_value is None:
        return False
    if isinstance(answer_value, Eq) and isinstance(reference_value, Eq):
        # For math-verify, all equations without a solution are equal.
        ratio = simplify((answer_value.lhs - answer_value.rhs) / (reference_value.lhs - reference_value.rhs))
        return bool(ratio.is_number and ratio.is_finite and ratio != 0)
    if isinstance(answer_value, Expr) and isinstance(reference_value, Expr):
        same = _same_values(answer_value, reference_value)
        if same is not None:
            return same
    answer_value, reference_value = _as_set(answer_value), _as_set(reference_value)
    if isinstance(answer_value, Set) and isinstance(reference_value, Set) and answer_value == reference_value:
        return True
    options = {"float_rounding": 12, "allow_set_relation_comp": True, "timeout_seconds": None}
    return bool(math_verify.verify(reference_value, answer_value, **options))


@lru_cache(maxsize=1024)  # The solutions of a question have one reference, and often the same answer.
def _parsed(text: str) -> Any:
    """Return the expression of a LaTeX text, None if it cannot be read."""
    import math_verify
    from latex2sympy2_extended import NormalizationConfig

    spelling = NormalizationConfig(units=False, malformed_operators=True, nits=True, boxed="none")
    latex = [math_verify.LatexExtractionConfig(normalization_config=spelling)]
    expressions = math_verify.parse(f"${text}$", latex, fallback_mode="no_fallback", parsing_timeout=None)
    return expressions[0] if expressions else None


def _same_values(answer: Any, reference: Any) -> bool | None:
    """Compare two expressions at some places by their relative difference. Return None if it cannot be computed.

    For math-verify, all numbers below about 1e-15 are equal.
    """
    from sympy import Float, I, Integer, Pow, Product, Rational, Sum, log

    expressions = [
        expression.subs({name: I for name in expression.free_symbols if str(name) == "i"})
        for expression in (answer, reference)
    ]
    symbols = expressions[0].free_symbols | expressions[1].free_symbols
    names = sorted(set(map(str, symbols)))
    has_counts = answer.has(Sum, Product) or reference.has(Sum, Product)  # up to a number that a name stands for
    limit = _ROUNDED if answer.has(Float) or reference.has(Float) else _EXACT
    exact = [
        expression.replace(lambda atom: isinstance(atom, Float), lambda atom: Rational(str(atom)))
        for expression in expressions
    ]
    atoms = exact[0].atoms(Pow, log) | exact[1].atoms(Pow, log)
    compared = False
    for place, (above, below) in enumerate(_PLACES if names else _PLACES[:1]):
        values = {}
        for symbol in symbols:
            number = names.index(str(symbol))
            rational = Rational(above * (number + 2) ** 2 + place, abs(below) + number)
            values[symbol] = Integer(4 + 3 * place + 2 * number) if has_counts else rational
        answer_value, reference_value = (expression.subs(values).doit() for expression in exact)
        difference = answer_value - reference_value
        if difference == 0:
            compared = True
            continue
        results = [value.evalf(_DIGITS) for value in (difference, answer_value, reference_value)]
        uses_i = any(expression.has(I) for expression in expressions)
        same_kind = not uses_i and results[1].is_real == results[2].is_real
        if same_kind and any(atom.subs(values).evalf(15).is_real is False for atom in atoms):
            continue  # A part has no value there, such as the root of a negative number.
        compared = True
        sizes = [abs(value) for value in results]
        if not all((size.is_Float or size.is_Rational) and size.is_finite for size in sizes):
            return None
        if difference.is_Rational or sizes[0] > limit * max(sizes[1:]):
            return False
    return True if compared else None


def _as_set(relation: Any) -> Any:
    """Return the numbers that satisfy an inequality in one name: for |x| < 5, the interval (-5, 5)."""
    from sympy import Intersection, Union
    from sympy.core.relational import Equality, Relational
    from sympy.logic.boolalg import And, Or

    if isinstance(relation, Intersection | Union):
        return relation.func(*map(_as_set, relation.args))
    is_one = isinstance(relation, Relational | And | Or) and not isinstance(relation, Equality)
    if not is_one or len(relation.free_symbols) != 1:
        return relation
    return relation.as_set()


def _holds(question: Any) -> bool:
    """Decide a question of ``prmcal.registry.grading.structure``, read from JSON."""
    if isinstance(question, bool):
        return question
    if "parts" in question:
        return all(map(_holds, question["parts"]))
    if "rows" in question:
        return _match(question["rows"])
    return _equal(question["answer"], question["reference"])


def _match(rows: list[list[Any]]) -> bool:
    unmatched_columns = list(range(len(rows)))
    for row in rows:
        match = next((column for column in unmatched_columns if _holds(row[column])), None)
        if match is None:
            return False
        unmatched_columns.remove(match)
    return True


def _compare_forever(requests: int, replies: int, seconds: float, memory: int) -> NoReturn:
    """Answer requests in the fork until it is killed. SIGPROF limits the processor time, and MemoryError the memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    with contextlib.suppress(ValueError, OSError):  # Some systems cannot limit the address space.
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    sys.addaudithook(_refuse)
    with os.fdopen(requests, encoding="utf-8") as lines:
        for line in lines:
            question = json.loads(line)
            signal.setitimer(signal.ITIMER_PROF, seconds)
            try:
                reply = b"equal" if _holds(question) else b"different"
            except MemoryError:
                reply = b"over"
            except Exception:  # An answer that the libraries cannot handle is not equal.
                reply = b"different"
            signal.setitimer(signal.ITIMER_PROF, 0)
            os.write(replies, reply)
    os._exit(0)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """Forbid other programs, the network and writing files. A comparison needs none of these."""
    writing = event == "open" and isinstance(arguments[1], str) and not set(arguments[1]) <= set("rbt")
    if writing or event.startswith(_REFUSED):
        raise PermissionError(event)


class _Comparing:
    """The fork that compares, which is replaced when it ends, and the pipes to it."""

    def __init__(self, seconds: float, memory: int) -> None:
        self._limits = seconds, memory
        self._fork()

    def reply(self, line: str, patience: float) -> str:
        """Ask until the fork answers or exceeds its limits. How busy the machine is decides no verdict."""
        for _ in range(_ATTEMPTS):
            reply = self._ask(line, patience)
            if reply in ("equal", "different"):
                return reply
            ended_by = self.end()
            self._fork()
            if reply == "over" or (not reply and ended_by != signal.SIGKILL):
                return "over"
            patience *= _MORE_PATIENCE
        return "failed"

    def end(self) -> int:
        """End the fork, and return the signal that ended it. This is SIGKILL unless the fork ended before."""
        os.kill(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        os.close(self._requests)
        os.close(self._replies)
        return -os.waitstatus_to_exitcode(status)

    def _fork(self) -> None:
        requests, self._requests = os.pipe()
        self._replies, replies = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._requests)
            os.close(self._replies)
            _compare_forever(requests, replies, *self._limits)
        os.close(requests)
        os.close(replies)

    def _ask(self, line: str, patience: float) -> str:
        """Return the reply of the fork, "late" if it took longer than `patience` seconds, or "" if the fork ended."""
        try:
            os.write(self._requests, line.encode())
        except BrokenPipeError:
            return ""
        ready, _, _ = select.select([self._replies], [], [], patience)
        return os.read(self._replies, 64).decode() if ready else "late"


def _predict_in_two_stages() -> None:
    """Let the parser predict with less context first. It then builds the same tree in less time, or fails.

    After an error it begins again with the full context ("The Definitive ANTLR 4 Reference", section 13.7).
    """
    from antlr4 import CommonTokenStream
    from antlr4.atn.PredictionMode import PredictionMode
    from latex2sympy2_extended.antlr_parser import PSParser

    with_full_context = PSParser.math

    def math(parser: Any) -> Any:
        parser._interp.predictionMode = PredictionMode.SLL
        try:
            return with_full_context(parser)
        except Exception:
            lexer = parser.getTokenStream().tokenSource
            lexer.reset()
            second_parser = PSParser(CommonTokenStream(lexer))
            second_parser._listeners = parser._listeners
            return with_full_context(second_parser)

    PSParser.math = math


def main(seconds: float, megabytes: int, patience: float) -> None:
    """Answer requests until the input ends."""
    from latex2sympy2_extended import latex2sympy
    from latex2sympy2_extended.latex2sympy2 import ConversionConfig

    # R and r are two names. math-verify has no option for it.
    latex2sympy.__defaults__ = (*latex2sympy.__defaults__[:-1], ConversionConfig(lowercase_symbols=False))
    _predict_in_two_stages()
    _equal("\\frac{1}{2}x", "\\frac{x}{2}")  # Loads the imports and the parser's tables before the fork.
    comparing = _Comparing(seconds, megabytes * 2**20)
    try:
        for line in sys.stdin:
            print(comparing.reply(line, patience), flush=True)
    finally:
        comparing.end()


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
