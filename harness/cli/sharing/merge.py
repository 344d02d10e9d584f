"""``prmcal merge``: what a merge did, in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from prmcal.db.text.formats import counted, duration
from prmcal.errors import RunError
from prmcal.harness.cli.app import ending_cleanly
from prmcal.harness.cli.options import argument
from prmcal.harness.share.merge import MergeSummary
from prmcal.harness.share.merge import merge as merge_inputs
from prmcal.harness.share.submissions import Submitted
from prmcal.harness.terminal import wrapped

_MOST_CONFLICTS = 5


@ending_cleanly()
def merge(
    out: Annotated[Path, argument("OUT", "A new folder, or a merged leaderboard, which is extended.")],
    inputs: Annotated[
        list[Path],
        argument(
            "DIR_OR_BUNDLE...",
            "Output folders of runs, bundles, other merged leaderboards, and verifications (JSON).",
        ),
    ],
) -> None:
    """Merge runs and bundles into one leaderboard.

    Equal results are one row. Other seeds, versions and conditions are rows of their own, and columns say what differs.
    Results that contradict each other are shown, and both stay. The order of the inputs does not matter. If a merge is
    interrupted, run the same command again.
    """
    if not inputs:
        raise RunError("There is nothing to merge. Give folders or bundles after OUT.")
    file = next((path for path in (out, *out.parents) if path.exists() and not path.is_dir()), None)
    if file is not None:
        raise RunError(f"{file} is a file. Give a new folder or a merged leaderboard as OUT.")
    typer.echo(summary_text(merge_inputs(out, inputs), out), nl=False)


def summary_text(summary: MergeSummary, out: Path, width: int | None = None) -> str:
    """Return what a merge did as text of the terminal."""
    lines = [*_lines(summary), *_conflicts(summary), f"Next: prmcal leaderboard {out}"]
    # The following lines of an item are indented like its first one.
    return "".join(
        wrapped(line.strip(), width, indent="  " if line.startswith(" ") else "") + "\n" for line in lines
    )


def _lines(summary: MergeSummary) -> Iterator[str]:
    union = summary.union
    yield (
        f"Added {counted(len(summary.added), 'submission')} and {counted(summary.verifications, 'verification')} in "
        f"{duration(summary.seconds)}. {counted(len(summary.known), 'submission')} had been merged before."
    )
    for each in sorted(summary.added, key=lambda each: each.place):
        done = sum(each.is_done(cell) for cell in each.plan.cells)
        yield f"  {_named(each)}: {counted(done, 'finished cell')}."
    yield f"Cells: {summary.new_cells:,} new, {summary.same_cells:,} equal to others."
    seeds = {each.cell.cell_id for cells in union.seeds() for each in cells}
    others = [each for name, each in union.cells.items() if each.cell.variant and name not in seeds]
    conflicts = sum(each.conflict for each in union.cells.values())
    yield (
        f"The leaderboard has {counted(len(union.cells), 'cell')} from "
        f"{counted(len(union.submissions), 'submission')}: {len(seeds):,} with several seeds, "
        f"{sum(not each.conflict for each in others):,} of other versions or conditions, {conflicts:,} in conflict."
    )


def _conflicts(summary: MergeSummary) -> Iterator[str]:
    """Yield the artifacts that contradict each other, but not those that were computed from them."""
    union = summary.union
    conflicts = union.conflicts.keys() - union.replicates
    sides: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for submission in union.submissions:
        for shard in submission.plan.shards():
            read = chain(*shard.inputs.values())
            if shard.ref in conflicts and submission.contents.get(shard.ref) and conflicts.isdisjoint(read):
                name = f"{submission.plan.job_of(shard.ref)} ({shard.ref.kind}/{shard.ref.key})"
                sides[name][submission.contents[shard.ref]].append(_named(submission))
    if sides:
        yield ""
        yield (
            f"Conflict: {counted(len(sides), 'artifact')} with different content under one key. "
            "Both contents stay, and the column 'conflict' marks the rows that were computed from them."
        )
        for name in sorted(sides)[:_MOST_CONFLICTS]:
            yield f"  {name}: {' against '.join(' and '.join(each) for each in sides[name].values())}."
        if len(sides) > _MOST_CONFLICTS:
            yield f"  and {len(sides) - _MOST_CONFLICTS:,} more."
        yield "Which one is right, a verification tells: prmcal verify BUNDLE"


def _named(submission: Submitted) -> str:
    who = submission.submission.submitter or f"run {submission.record.run_id}"
    return f"{submission.submission_id} ({who})"
