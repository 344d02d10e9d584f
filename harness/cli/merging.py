"""``prmcal merge``: the results of several runs in one folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from prmcal.db.text.formats import counted
from prmcal.harness.cli.app import ending_cleanly
from prmcal.harness.cli.options import WORDS, argument, option
from prmcal.harness.merging.merge import merge as merge_folders
from prmcal.harness.merging.union import Union
from prmcal.harness.terminal import wrapped


@ending_cleanly()
def merge(
    runs: Annotated[list[Path], argument("RUN...", WORDS["merge"]["runs"])],
    out: Annotated[Path, option("DIR", WORDS["merge"]["out"])],
) -> None:
    """Join the results of several runs in one folder.

    All commands read it like the folder of one run. Rows are those of all runs. Where several runs have the same one,
    that of the first stays, and it says by how much another one differs. If a merge is interrupted, run the same
    command again.
    """
    for line in _lines(merge_folders(runs, out), out):
        # The following lines of an item are indented like its first one.
        typer.echo(wrapped(line.strip(), indent="  " if line.startswith(" ") else ""), err=True)


def _lines(union: Union, out: Path) -> Iterator[str]:
    cells = union.plan.cells
    done = sum(bool(cell.source) for cell in cells)
    yield f"Merged {counted(len(union.sources), 'run')} into {out}: {counted(len(cells), 'cell')}, {done:,} done."
    different = sum(bool(cell.difference) for cell in cells)
    if different:
        yield (
            f"Runs differ under one key in {counted(different, 'cell')}. The values are those of the first run. "
            f"`prmcal leaderboard {out} --table calibration` says by how much they differ."
        )
    names = [
        f"  {kind} {old} of {folder}: {new}"
        for folder, renamed in union.renamed.items()
        for (kind, old), new in renamed.items()
    ]
    if names:
        yield "Names that mean other things in an earlier run got the name of their folder:"
        yield from names
    yield f"Next: prmcal leaderboard {out}"
