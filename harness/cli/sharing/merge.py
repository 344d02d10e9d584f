"""``prmcal merge``: what a merge did, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from prmcal.db.text.formats import counted, duration
from prmcal.errors import RunError
from prmcal.harness.merging.conflicts import Conflict
from prmcal.harness.merging.merge import MergeSummary, merge
from prmcal.harness.merging.seeds import replicates_in
from prmcal.harness.merging.submissions.submitted import Submitted
from prmcal.harness.merging.union import Union
from prmcal.harness.terminal.prose import wrapped

__all__ = ["merge_into", "summary_text"]

_MOST_CONFLICTS = 5


def merge_into(out: Path, inputs: Sequence[Path], width: int | None = None) -> str:
    """Merge inputs into a leaderboard, and return what was done as text of the terminal.

    Parameters
    ----------
    out : Path
        A new folder, or a merged leaderboard.
    inputs : sequence of Path
    width : int, optional
        Default: the width of the terminal.

    Raises
    ------
    PrmcalError
        If an argument is wrong, or merging failed.
    """
    _check_folder(out)
    return summary_text(merge(out, inputs), out, width)


def _check_folder(out: Path) -> None:
    file = next((path for path in (out, *out.parents) if path.exists() and not path.is_dir()), None)
    if file is not None:
        raise RunError(f"{file} is a file. Give a new folder or a merged leaderboard as OUT.")


def summary_text(summary: MergeSummary, out: Path, width: int | None = None) -> str:
    """Return what a merge did as text of the terminal."""
    lines = [*_lines(summary), *_conflicts(summary), f"Next: prmcal leaderboard {out}"]
    return "\n".join(_shown(line, width) for line in lines) + "\n"


def _shown(line: str, width: int | None) -> str:
    """Wrap a line. The following lines of an item are indented like its first one."""
    text = line.lstrip(" ")
    return wrapped(text, width, indent=line[: len(line) - len(text)])


def _lines(summary: MergeSummary) -> Iterator[str]:
    union = summary.union
    new = counted(len(summary.added), "submission")
    told = [
        f"Added {new} and {counted(summary.verifications, 'verification')} in {duration(summary.seconds)}."
    ]
    if summary.known:
        told.append(f"{counted(len(summary.known), 'submission')} had been merged before.")
    yield " ".join(told)
    for each in sorted(summary.added, key=lambda each: each.place):
        done = sum(each.is_done(cell) for cell in each.plan.cells)
        yield f"  {_named(each)}: {counted(done, 'finished cell')}."
    yield (
        f"Cells: {summary.new_cells:,} new, {summary.same_cells:,} equal to others. Artifacts: {summary.artifacts:,} "
        f"added, {summary.same_artifacts:,} there already."
    )
    for name, count in summary.missing.items():
        (submission,) = (each for each in union.submissions if each.submission_id == name)
        yield (
            f"The leaderboard lacks {counted(count, 'artifact')} of {_named(submission)}, so some of its "
            "cells are pending. Merge that submission again."
        )
    seeds = {each.cell.cell_id for cells in replicates_in(union) for each in cells}
    variants = [each for name, each in union.cells.items() if each.variant and name not in seeds]
    contradicting = sum(each.in_conflict for each in variants)
    submissions = counted(len(union.submissions), "submission")
    yield (
        f"The leaderboard has {counted(len(union.cells), 'cell')} from {submissions}: "
        f"{len(seeds):,} with several seeds, {len(variants) - contradicting:,} of other versions or conditions, "
        f"{contradicting:,} in conflict."
    )


def _conflicts(summary: MergeSummary) -> Iterator[str]:
    if not summary.conflicts:
        return
    count = len(summary.conflicts)
    yield ""
    yield (
        f"Conflict: {counted(count, 'artifact')} with equal {'key' if count == 1 else 'keys'} and different content. "
        f"Both contents stay. {_behind_conflicts(summary.union)}"
    )
    for conflict in summary.conflicts[:_MOST_CONFLICTS]:
        yield f"  {_told(conflict)}"
    if count > _MOST_CONFLICTS:
        yield f"  and {count - _MOST_CONFLICTS:,} more."
    yield "Which one is right, a verification tells: prmcal verify BUNDLE"


def _behind_conflicts(union: Union) -> str:
    cells = sum(each.in_conflict for each in union.cells.values())
    if not cells:
        return "No finished cell was computed from the later ones."
    have, names = ("has", "name of its LLM") if cells == 1 else ("have", "names of their LLMs")
    return f"{counted(cells, 'cell')} computed from the later ones {have} the submission in the {names}."


def _told(conflict: Conflict) -> str:
    sides = " against ".join(" and ".join(map(_named, each)) for each in conflict.submissions)
    parts = []
    for each in conflict.differences:
        most = f" by up to {each.most:.3g} in {each.column}" if each.most is not None else ""
        parts.append(f"{each.rows:,} of {each.of:,} rows of {each.table} differ{most}")
    text = "; ".join(parts) or "the files differ"
    behind = (
        f" {counted(conflict.behind, 'artifact')} computed from it also differ." if conflict.behind else ""
    )
    return f"{conflict.what} ({conflict.ref.kind}/{conflict.ref.key}): {text}. {sides}.{behind}"


def _named(submission: Submitted) -> str:
    who = submission.submission.submitter or f"run {submission.record.run_id}"
    return f"{submission.submission_id} ({who})"
