"""Measure how often labelled pairs of answers are wrongly refused and wrongly accepted, and write it into the page.

    python -m benchmarks.evidence.pairs [BEFORE]

The invented pairs are in ``tests/registry/grading/pairs.csv``. They are graded here, by math-verify alone, and by
BEFORE, the folder of another checkout of prmcal. Each kind is printed. With BEFORE, the sums are written into the page
"How answers are compared", with intervals of Clopper and Pearson.
"""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from scipy.stats import binomtest

from benchmarks.evidence.reading import graded

_ROOT = Path(__file__).parents[2]
_PAIRS = _ROOT / "tests" / "registry" / "grading" / "pairs.csv"
_PAGE = _ROOT / "docs" / "concepts" / "answers.md"
_PLACE = re.compile(r"(<!-- pairs -->\n).*?(<!-- end -->)", re.DOTALL)
_MATH_VERIFY = """
import json, logging, sys
from math_verify import parse, verify
logging.disable()
for line in sys.stdin:
    answer, reference = (parse(f"${text}$") for text in json.loads(line))
    print(json.dumps(bool(verify(reference, answer))), flush=True)
"""


def by_math_verify(pairs: list[tuple[str, str]]) -> list[bool]:
    """Return whether math-verify, with its own options, takes each pair for equal."""
    lines = "".join(json.dumps(pair) + "\n" for pair in pairs)
    done = subprocess.run([sys.executable, "-c", _MATH_VERIFY], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def share(count: int, total: int) -> str:
    """Return a share in percent with its interval."""
    ends = binomtest(count, total).proportion_ci()
    return f"{count / total:.1%} [{ends.low:.1%}, {ends.high:.1%}]"


def main(before: Path | None) -> None:
    """Print the counts of each kind, and write the sums."""
    with _PAIRS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    pairs = [(row["answer"], row["reference"]) for row in rows]
    accepted = {"math-verify alone": by_math_verify(pairs)}
    for name, checkout in (("prmcal before", before), ("prmcal", _ROOT)):
        if checkout:
            verdicts = graded([(None, *pair) for pair in pairs], checkout)
            accepted[name] = [verdict == "correct" for verdict, _ in verdicts]
    totals = Counter((row["kind"], row["label"]) for row in rows)
    wrong = {
        name: Counter(
            (row["kind"], row["label"])
            for row, equal in zip(rows, answers, strict=True)
            if equal != (row["label"] == "equal")
        )
        for name, answers in accepted.items()
    }
    for kind, label in sorted(totals):
        counts = "   ".join(f"{name} {count[kind, label]:3}" for name, count in wrong.items())
        print(f"{kind:28} {label:9} {totals[kind, label]:4} pairs, wrong: {counts}")
    sums = {label: sum(count for key, count in totals.items() if key[1] == label) for label in ("equal", "different")}
    lines = [
        f"| | wrongly refused of {sums['equal']:,} | wrongly accepted of {sums['different']:,} |",
        "| --- | --- | --- |",
    ]
    for name, count in wrong.items():
        shares = [share(sum(n for key, n in count.items() if key[1] == label), total) for label, total in sums.items()]
        lines.append(f"| {name} | {shares[0]} | {shares[1]} |")
    print("\n".join(lines))
    if before:
        text = _PAGE.read_text(encoding="utf-8")
        _PAGE.write_text(
            _PLACE.sub(lambda place: place[1] + "\n".join(lines) + "\n" + place[2], text), encoding="utf-8"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
