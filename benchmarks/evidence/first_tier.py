"""What the first tier of `prmcal verify` costs, of a whole run and of a tenth of its results.

    python -m benchmarks.evidence.first_tier runs/nano [--workers N]

It verifies a finished run twice, each time in processes of its own, and writes docs/nano/first_tier.csv. A loop of
additions says how fast a core of the machine is.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import timeit
from pathlib import Path

import pandas as pd

__all__ = ["cost", "loop_seconds"]

_OUT = Path(__file__).parents[2] / "docs" / "nano" / "first_tier.csv"


def cost(run: Path, share: float, workers: int) -> dict[str, str]:
    """Verify a run, and return what it took. Raise a CalledProcessError if it does not pass."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "record.json"
        options = ["--results", str(share), "--workers", str(workers), "--seed", "1", "--out", str(record)]
        command = [sys.executable, "-m", "prmcal", "verify", str(run), *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        checks = json.loads(record.read_text(encoding="utf-8"))["checks"]
    seconds = time.monotonic() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    (again,) = (each["n"] for each in checks if each["check"] == "results computed again")
    return {
        "option": "" if share == 1 else f"`--results {share:g}`",
        "results computed again": f"{again:,}",
        "seconds": f"{seconds:.0f}",
        "seconds of processors": f"{used:.0f}",
        "largest process, MB": f"{after.ru_maxrss / 1024:,.0f}",
    }


def loop_seconds() -> float:
    """Return what `python -m timeit -n 1 -s "s = 0" "for i in range(10**7): s += i"` prints, in seconds."""
    return min(timeit.repeat("for i in range(10**7): s += i", "s = 0", repeat=5, number=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    rows = []
    for share in (1.0, 0.1):
        loop = loop_seconds()
        rows.append(cost(given.run, share, given.workers) | {"loop, s": f"{loop:.2f}"})
        print(rows[-1], flush=True)
    pd.DataFrame(rows).to_csv(_OUT, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
