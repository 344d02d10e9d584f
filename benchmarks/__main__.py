"""Measure prmcal against naive ways and peers, and print one table.

python -m benchmarks [FAMILY...] [--tiny] [--write]

The families are sampling, scoring, fitting, statistics and storage. Every benchmark raises an AssertionError if results
that should be equal differ. A time is no reason to fail. With ``--tiny``, all take some seconds, and the ratios mean
nothing. With ``--write``, the table is also written into ``benchmarks/README.md``, and kept for other documents.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

import pandas as pd

from benchmarks.measuring import Figure, machine
from benchmarks.tables import README, keep, markdown, write_table

FAMILIES = ("sampling", "scoring", "fitting", "statistics", "storage")
SPEED = Path(__file__).parents[1] / "docs" / "nano" / "speed.csv"


def figures(families: Sequence[str], tiny: bool) -> Iterator[tuple[str, Figure]]:
    """Yield what each benchmark of some families measures, with the family."""
    for family in families:
        for benchmark in import_module(f"benchmarks.{family}").BENCHMARKS:
            yield family, benchmark(tiny)


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table as text, with the ratio of both times."""
    times = [f"{seconds:.2g}" if seconds < 10 else f"{seconds:,.0f}" for seconds in table["seconds"]]
    ratios = ["" if ratio != ratio else f"{ratio:.1f}" for ratio in table["peer_seconds"] / table["seconds"]]
    table = table.assign(seconds=times, ratio=ratios)[["family", "what", "seconds", "ratio", "peer", "remark"]]
    return table.rename(columns={"ratio": "faster by a factor of", "peer": "than"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks of some families."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure prmcal against others.")
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(FAMILIES))
    parser.add_argument("--tiny", action="store_true", help="small sizes, to test the code")
    parser.add_argument("--write", action="store_true", help=f"write the table into {README.parent.name}/{README.name}")
    options = parser.parse_args(arguments)
    if unknown := set(options.families) - set(FAMILIES):
        parser.error(f"There is no family {', '.join(sorted(unknown))}. Choose from {', '.join(FAMILIES)}.")
    if options.write and (options.families or options.tiny):
        parser.error("--write needs all families in their real sizes.")
    measured = []
    for family, figure in figures(options.families or FAMILIES, options.tiny):
        measured.append({"family": family, **asdict(figure)})
        print(f"{family}: {figure}", file=sys.stderr, flush=True)
    table = pd.DataFrame(measured)
    text = f"{machine()}\n\n{markdown(shown(table))}"
    print(text)
    if options.write:
        write_table(README, "speed", text)
        keep(table, SPEED.parent, SPEED.stem)
    return 0


if __name__ == "__main__":
    sys.exit(main())
