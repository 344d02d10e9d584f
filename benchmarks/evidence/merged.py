"""The nano grid as five runs in five folders, merged in many orders into the leaderboards of the whole run.

    python -m benchmarks.evidence.merged runs/nano --out /tmp/merged

The first argument is the finished run of the whole grid. The parts have other cuts and orders of the grid. Two of them
are computed from the beginning. The other three take their artifacts from the whole run, because these have equal keys;
a table says how many shards each part computed. Then the leaderboards of the merged folders are compared with those of
the whole run, byte by byte. It writes docs/nano/parts.csv and docs/nano/merged.csv.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import json
import os
import random
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from prmcal.db.queries.runs import PROVENANCE
from prmcal.db.run_folder import artifacts_root
from prmcal.harness.cli.leaderboard import render_leaderboard
from prmcal.harness.execution.ending import RunSummary
from prmcal.harness.execution.run import run_grid
from prmcal.harness.planning.reading import find_grid, grid_of, read_grid
from prmcal.harness.share.merge import merge

_DOCS = Path(__file__).parents[2] / "docs" / "nano"
TABLES = ("overview", "calibration", "scaling", "league")
FORMATS = ("csv", "json")
_LEFT_OUT = {*PROVENANCE, "fit_seconds"}
"""Columns that only a merged leaderboard has, and the time that a fit took, which differs between machines."""


def parts() -> dict[str, tuple[dict[str, Any], Mapping[str, Sequence[str]], bool]]:
    """Return the parts of the nano grid: for each its grid, the cells that it is asked for, and whether it is new."""
    grid = read_grid(find_grid("nano")).model_dump(mode="json")
    beams = [each for each in grid["strategies"] if each["name"].startswith("beam")]
    asking = [each for each in grid["strategies"] if each["name"] == "escalation"]
    lora = [each for each in grid["calibrators"] if each["name"] == "quantile-lora"]
    simple = _without(grid["calibrators"], lora)
    pooled = _restricted(_without(grid["strategies"], beams), {each["name"] for each in simple})
    few = [each for each in simple if each["name"] in ("uncalibrated", "temperature", "isotonic")]
    return {
        "one LLM": (
            {
                **grid,
                "llms": grid["llms"][:1],
                "calibrators": simple,
                "strategies": _without(pooled, asking),
            },
            {},
            True,
        ),
        "three calibrators": (
            {
                **grid,
                "llms": grid["llms"][2:],
                "prms": grid["prms"][:1],
                "calibrators": few,
                "strategies": _without(
                    _restricted(grid["strategies"], {each["name"] for each in few}), [*asking, *beams]
                ),
            },
            {},
            True,
        ),
        "two PRMs, reversed lists": (
            {
                **grid,
                "llms": grid["llms"][::-1],
                "prms": grid["prms"][1:],
                "calibrators": grid["calibrators"][::-1],
                "strategies": _without(grid["strategies"], beams)[::-1],
            },
            {},
            False,
        ),
        "one PRM, nano-math": (grid, {"prm": ["nano-prm"], "dataset": ["nano-math"]}, False),
        "one PRM, nano-aime": (grid, {"prm": ["nano-prm"], "dataset": ["nano-aime"]}, False),
    }


def _without(entries: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in entries if each not in others]


def _restricted(strategies: Sequence[dict[str, Any]], calibrators: set[str]) -> list[dict[str, Any]]:
    """Return strategies whose lists name only these calibrators."""
    return [
        {**each, "calibrators": each["calibrators"] and [n for n in each["calibrators"] if n in calibrators]}
        for each in strategies
    ]


def run_part(name: str, whole: Path, out: Path) -> RunSummary:
    """Run a part in a folder of its own."""
    grid, only, new = parts()[name]
    if not new and not out.exists():
        out.mkdir(parents=True)
        shutil.copytree(artifacts_root(whole), artifacts_root(out), copy_function=os.link)
    return run_grid(grid_of(grid, name), out, 1, only=only, stream=io.StringIO())


def differences(some: Path, other: Path) -> Iterator[str]:
    """Yield how the leaderboards of two folders differ: nothing if their bytes are equal.

    The columns that only a merged leaderboard has, and the seconds of fits, are left out before.
    """
    for table, form in itertools.product(TABLES, FORMATS):
        texts = [_comparable(render_leaderboard(folder, table, form), form) for folder in (some, other)]
        if texts[0] == texts[1]:
            continue
        frames = [
            pd.read_csv(io.StringIO(text)) if form == "csv" else pd.read_json(io.StringIO(text))
            for text in texts
        ]
        if list(frames[0]) != list(frames[1]) or len(frames[0]) != len(frames[1]):
            yield f"{table} ({form}): other rows or columns"
            continue
        columns = [name for name in frames[0] if not frames[0][name].equals(frames[1][name])]
        yield f"{table} ({form}): {', '.join(columns)}"


def _comparable(text: str, form: str) -> str:
    if form == "json":
        rows = [
            {name: value for name, value in row.items() if name not in _LEFT_OUT} for row in json.loads(text)
        ]
        return json.dumps(rows, indent=1) + "\n"
    reader = csv.DictReader(io.StringIO(text))
    names = [name for name in reader.fieldnames or () if name not in _LEFT_OUT]
    out = io.StringIO()
    writer = csv.DictWriter(out, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(reader)
    return out.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("whole", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--orders", type=int, default=4, help="How many orders and groupings are merged.")
    given = parser.parse_args()
    folders = {name: given.out / f"part-{number}" for number, name in enumerate(parts(), start=1)}
    rows = []
    for number, (name, folder) in enumerate(folders.items(), start=1):
        summary = run_part(name, given.whole, folder)
        rows.append(
            {
                "part": number,
                "what it has": name,
                "cells": f"{summary.cells:,}",
                "shards computed": f"{summary.computed:,}",
                "shards with equal keys from the whole run": f"{summary.reused:,}",
            }
        )
        print(rows[-1], flush=True)
    pd.DataFrame(rows).to_csv(_DOCS / "parts.csv", index=False, lineterminator="\n")
    pd.DataFrame(_merged(given.whole, list(folders.values()), given.out, given.orders)).to_csv(
        _DOCS / "merged.csv", index=False, lineterminator="\n"
    )


def _merged(whole: Path, folders: Sequence[Path], out: Path, orders: int) -> Iterator[dict[str, str]]:
    """Merge in several orders and groupings, and yield what each gives."""
    yield _compared("the whole run alone", [[whole]], out / "alone", whole)
    drawn = random.Random(0)
    for number in range(orders):
        order = drawn.sample(range(len(folders)), len(folders))
        cut = drawn.randrange(1, len(order))
        names = [", ".join(str(each + 1) for each in part) for part in (order[:cut], order[cut:])]
        groups = [[folders[each] for each in part] for part in (order[:cut], order[cut:])]
        yield _compared(f"{names[0]}; then {names[1]}", groups, out / f"merged-{number}", whole)
    two = [out / "left", out / "right"]
    for folder, inputs in zip(two, (folders[:3], folders[2:]), strict=True):
        merge(folder, inputs)
    yield _compared("two merged leaderboards: 1, 2, 3 and 3, 4, 5", [two], out / "of-merged", whole)


def _compared(what: str, groups: Sequence[Sequence[Path]], out: Path, whole: Path) -> dict[str, str]:
    begin = time.monotonic()
    for inputs in groups:
        merge(out, inputs)
    seconds = time.monotonic() - begin
    found = list(differences(whole, out))
    again = merge(out, groups[-1])
    row = {
        "parts, in the order of merging": what,
        "tables, against those of the whole run": f"differ in {'; '.join(found)}" if found else "equal bytes",
        "added by the same command again": f"{len(again.added)} submissions",
        "seconds": f"{seconds:.0f}",
    }
    print(row, flush=True)
    return row


if __name__ == "__main__":
    main()
