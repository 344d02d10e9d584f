r"""Count how many real answers are refused in other spellings, and compare all verdicts with those of another checkout.

    python -m benchmarks.evidence.reading DATA [BEFORE]

DATA is a folder with recorded solutions of MATH and ProcessBench. BEFORE is the folder of another checkout of prmcal,
whose counts stand beside ours. The first table has 2,000 reference answers of MATH, each written in 19 ways. The second
part grades the recorded solutions of `math_cot_100` and ProcessBench, and names each verdict that differs.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

_REFERENCES = 2000
_SUPERSCRIPTS = str.maketrans("0123456789", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")

_GRADE = """
import json, sys
from prmcal.registry.grading import extract_answer, grade_answer
for line in sys.stdin:
    text, answer, reference = json.loads(line)
    answer = extract_answer(text) if answer is None else answer
    print(json.dumps(["unparsed" if answer is None else grade_answer(answer, reference), answer]), flush=True)
"""

Case = tuple[str | None, str | None, str]
"""A solution or else its answer, and the reference."""


def graded(cases: Sequence[Case], checkout: Path) -> list[tuple[str, str | None]]:
    """Return the verdict of a checkout on each case, and the answer that it read."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    command = [sys.executable, "-c", _GRADE]
    done = subprocess.run(command, input=lines, env=environment, capture_output=True, text=True, check=True)
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def _outside_text(change: Callable[[str], str]) -> Callable[[str], str]:
    r"""Return a change that leaves the words of \text{...} alone."""

    def changed(answer: str) -> str:
        parts = re.split(r"(\\(?:text|mbox|mathrm|textbf)\s*\{[^{}]*\})", answer)
        return "".join(part if number % 2 else change(part) for number, part in enumerate(parts))

    return changed


def _keyboard(answer: str) -> str:
    answer = re.sub(r"\\[dt]?frac\{(-?\w+)\}\{(\w+)\}", r"(\1)/(\2)", answer)
    answer = re.sub(r"\\sqrt\{([^{}]*)\}", r" sqrt(\1)", answer)
    answer = re.sub(r"\^\{([^{}]*)\}", r"^(\1)", answer)
    return re.sub(r"\\(pi|theta|infty)(?![a-z])", lambda name: {"infty": "infinity"}.get(name[1], name[1]), answer)


def _unicode(answer: str) -> str:
    for name, sign in (("pi", "\u03c0"), ("infty", "\u221e"), ("cup", "\u222a"), ("le", "\u2264"), ("ge", "\u2265")):
        answer = re.sub(rf"\\{name}(?:q)?(?![a-zA-Z])", sign, answer)
    answer = re.sub(r"\\sqrt\{(\d+|\w)\}", "\u221a\\1", answer)
    return re.sub(r"\^(\d)(?!\d)|\^\{(\d+)\}", lambda run: (run[1] or run[2]).translate(_SUPERSCRIPTS), answer)


def _thousands(separator: str) -> Callable[[str], str]:
    return lambda answer: re.sub(r"^\d{4,}$", lambda run: f"{int(run[0]):,}".replace(",", separator), answer)


def _scientific(answer: str) -> str:
    return re.sub(r"^([1-9])(\d*)$", lambda run: f"{run[1]}.{run[2] or 0}e{len(run[2])}", answer)


def _reversed_equation(answer: str) -> str:
    left, sign, right = answer.partition("=")
    return f"{right.strip()} = {left.strip()}" if sign and "=" not in right and "," not in answer else answer


REWRITINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "between dollars": lambda answer: f"${answer}$",
    "in \\( \\)": lambda answer: f"\\({answer}\\)",
    "a full stop behind it": lambda answer: f"{answer}.",
    "\\dfrac": lambda answer: answer.replace("\\frac", "\\dfrac"),
    "\\left and \\right": _outside_text(lambda answer: answer.replace("(", "\\left(").replace(")", "\\right)")),
    "thin spaces": _outside_text(
        lambda answer: re.sub(r"(?<![\\\d]),(?!\\)|(?<=\d)\+", lambda m: f"{m[0]}\\,", answer)
    ),
    "\\displaystyle": lambda answer: f"\\displaystyle {answer}",
    "a byte order mark": lambda answer: f"\ufeff{answer}",
    "no-break spaces": lambda answer: answer.replace(" ", "\u00a0"),
    "\\approx before it": lambda answer: f"\\approx {answer}",
    "keyboard": _outside_text(_keyboard),
    "Unicode": _outside_text(_unicode),
    "a minus sign of Unicode": _outside_text(lambda answer: answer.replace("-", "\u2212")),
    "thousands with ,\\! and a space": _thousands(",\\! "),
    "thousands with {,}": _thousands("{,}"),
    "a number with e": _scientific,
    "an integer as a decimal": lambda answer: re.sub(r"^(-?\d+)$", r"\1.0", answer),
    "an equation the other way round": _reversed_equation,
}


def references(data: Path) -> list[str]:
    """Return some reference answers of MATH, each once, with all of MATH-500 first."""
    test = [json.loads(line)["answer"] for line in (data / "math500_test.jsonl").read_text().splitlines()]
    train = json.loads((data / "math_train_problems_and_answers.json").read_text())
    more = random.Random(1).sample([problem["final_answer"] for problem in train], len(train))
    return list(dict.fromkeys([*test, *more]))[:_REFERENCES]


def solutions(data: Path) -> Iterator[tuple[str, Case]]:
    """Yield the recorded solutions, with a name for each."""
    for line in (data / "math_cot_100_8samples.jsonl").read_text().splitlines():
        record = json.loads(line)
        for number, response in enumerate(record["response"]):
            yield (f"math_cot_100, question {record['idx']}, solution {number}", (response, None, record["answer"]))
    answers = {
        problem["problem"].strip(): problem["final_answer"]
        for problem in json.loads((data / "math_train_problems_and_answers.json").read_text())
    }
    for line in (data / "math500_test.jsonl").read_text().splitlines():
        answers[json.loads(line)["problem"].strip()] = json.loads(line)["answer"]
    for problem in json.loads((data / "processbench_math.json").read_text()):
        reference = answers.get(problem["problem"].strip())
        if reference is not None:
            yield (f"ProcessBench, {problem['id']}", ("\n\n".join(problem["steps"]), None, reference))


def main(data: Path, before: Path | None) -> None:
    """Print the table of refusals, and the verdicts that differ."""
    checkouts = [*([before] if before else []), Path(__file__).parents[2]]
    answers = references(data)
    rewritten = {name: list(map(change, answers)) for name, change in REWRITINGS.items()}
    cases = [(None, text, answer) for texts in rewritten.values() for text, answer in zip(texts, answers, strict=True)]
    print(f"{len(answers):,} references of MATH in {len(REWRITINGS)} ways: refused " + " -> ".join(map(str, checkouts)))
    verdicts = [graded(cases, checkout) for checkout in checkouts]
    for number, (name, texts) in enumerate(rewritten.items()):
        of_way = slice(number * len(answers), (number + 1) * len(answers))
        refused = [sum(verdict != "correct" for verdict, _ in of_checkout[of_way]) for of_checkout in verdicts]
        changed = sum(text != answer for text, answer in zip(texts, answers, strict=True))
        print(f"{name:34} {changed:6,} rewritten   {' -> '.join(f'{count:,}' for count in refused)}")
        for text, (verdict, _), answer in list(zip(texts, verdicts[-1][of_way], answers, strict=True)):
            if verdict != "correct":
                print(f"    {verdict}: {text!r} for {answer!r}")
    named_cases = list(solutions(data))
    of_checkouts = [graded([case for _, case in named_cases], checkout) for checkout in checkouts]
    print(f"{len(named_cases):,} recorded solutions; verdicts that differ:")
    for (name, (_, _, reference)), old, new in zip(named_cases, of_checkouts[0], of_checkouts[-1], strict=True):
        if old != new:
            print(f"    {name}: {old} -> {new} for {reference!r}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
