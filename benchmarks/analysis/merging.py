"""Merging many bundles of the size of the paper's grid: seconds, memory and disk, beside loading each of them alone.

    python -m benchmarks.analysis.merging --bundles 1 5 10
    python -m benchmarks.analysis.merging --bundles 50 --unpacked --table docs/sharing/merging.csv

Each bundle is a synthetic run of the grid `paper` with another seed (see `synthetic_runs`). One run is made at a time,
and deleted when its bundle is written. Each merge begins with a new folder, in a process of its own, so that the peak
of the memory is that of `prmcal merge`. Naively, a bundle is unpacked and loaded into a database of its own. With
`--unpacked`, unpacked bundles are merged. A merge links their files, so it needs half of the disk.
With `--table`, a line for each merge is added to a file.
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import sqlalchemy as sa

from benchmarks.analysis.synthetic_runs import write_synthetic_run
from prmcal.db.reader import reading
from prmcal.db.run_folder import published_path
from prmcal.db.tables import Base, Cell
from prmcal.harness.execution.run import rebuild_database
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.reading import find_grid, read_grid
from prmcal.harness.share.bundle import About
from prmcal.harness.share.checks import unpack
from prmcal.harness.share.writing import write_bundle

_GRID = "paper"


def write_bundles(
    folder: Path, grid: GridSpec, bundles: int, one_llm: bool, runs: Path | None = None
) -> Iterator[Path]:
    """Write bundles of synthetic runs with the seeds 1, 2, ... One run at a time is in the folder `runs`.

    With `one_llm`, each run has one LLM of the grid, in turn.
    """
    for seed in range(1, bundles + 1):
        own = grid.model_copy(update={"llms": [grid.llms[seed % len(grid.llms)]]}) if one_llm else grid
        path = folder / f"{seed}.bundle"
        with tempfile.TemporaryDirectory(dir=runs) as temporary:
            run = write_synthetic_run(Path(temporary) / "run", own, seed)
            write_bundle(run, None, path, About(f"submitter {seed}", "CC-BY-4.0"))
        yield path


def unpacked(bundle: Path) -> Path:
    """Put the content of a bundle into a folder in its place."""
    folder = bundle.with_suffix("")
    unpack(bundle, folder)
    bundle.unlink()
    return folder


def size(path: Path) -> int:
    """Return the bytes of a bundle, unpacked or not."""
    return sum(each.stat().st_size for each in [path, *path.rglob("*")] if each.is_file())


def merged(out: Path, bundles: Sequence[Path]) -> tuple[float, float]:
    """Merge bundles in a new process. Return its seconds and the peak of its memory in GB."""
    begin = time.monotonic()
    command = [sys.executable, "-m", "prmcal", "merge", str(out), *map(str, bundles)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit("The merge failed.")
    return time.monotonic() - begin, used.ru_maxrss * 1024 / 1e9


def naive_seconds(folder: Path, bundle: Path) -> float:
    """Return the seconds to unpack one bundle and load it into a database of its own."""
    begin = time.monotonic()
    unpack(bundle, folder)
    rebuild_database(folder)
    seconds = time.monotonic() - begin
    shutil.rmtree(folder)
    return seconds


def measured(out: Path, bundles: Sequence[Path], alone: float) -> dict[str, object]:
    """Merge bundles, and return a line of the table. The merged leaderboard is deleted."""
    seconds, memory = merged(out, bundles)
    cells = count(out, [Base.metadata.tables[Cell.__tablename__]])
    rows = count(out, Base.metadata.sorted_tables)
    database = published_path(out).stat().st_size
    shutil.rmtree(out)
    return {
        "bundles": len(bundles),
        "bundles in GB": f"{sum(map(size, bundles)) / 1e9:.1f}",
        "cells": f"{cells:,}",
        "rows in millions": f"{rows / 1e6:.0f}",
        "database in GB": f"{database / 1e9:.1f}",
        "seconds": f"{seconds:.0f}",
        "seconds per bundle": f"{seconds / len(bundles):.0f}",
        "seconds of a bundle alone": f"{alone:.0f}",
        "memory in GB": f"{memory:.1f}",
    }


def count(directory: Path, tables: Iterable[sa.Table]) -> int:
    """Count the rows of tables of a database."""
    with reading(published_path(directory)) as connection:
        counts = [connection.scalar(sa.select(sa.func.count()).select_from(table)) for table in tables]
    return sum(counted or 0 for counted in counts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bundles", type=int, nargs="+", default=[1, 5], help="The bundles of each merge.")
    parser.add_argument(
        "--one-llm", action="store_true", help="Each bundle has one LLM of the grid, in turn."
    )
    parser.add_argument("--unpacked", action="store_true", help="Merge unpacked bundles.")
    parser.add_argument("--table", type=Path)
    parser.add_argument(
        "--out", type=Path, help="A folder with enough space, by default that for temporary files."
    )
    parser.add_argument("--runs", type=Path, help="A folder for one run at a time, such as one in memory.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.out) as temporary:
        root = Path(temporary)
        begin = time.monotonic()
        grid = read_grid(find_grid(_GRID))
        bundles, alone = [], 0.0
        for bundle in write_bundles(root, grid, max(given.bundles), given.one_llm, given.runs):
            alone = alone or naive_seconds(root / "alone", bundle)
            bundles.append(unpacked(bundle) if given.unpacked else bundle)
            print(f"bundle {len(bundles)} is there after {time.monotonic() - begin:.0f} s", flush=True)
        llms = 1 if given.one_llm else len(grid.llms)
        for number in given.bundles:
            line = {"LLMs in each": llms, **measured(root / "merged", bundles[:number], alone)}
            print(line, flush=True)
            if given.table:
                _add(given.table, line)


def _add(table: Path, line: dict[str, object]) -> None:
    new = not table.exists()
    with table.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(line), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(line)


if __name__ == "__main__":
    main()
