"""``prmcal submit`` and ``merge``: results of several people, and what was done with them, in words."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal as file_size

from prmcal.db.queries.cells import find_cell
from prmcal.db.text.formats import counted, duration
from prmcal.errors import RunError, StorageError
from prmcal.harness.cli import options
from prmcal.harness.cli.app import ending_cleanly
from prmcal.harness.cli.options import WORDS, argument, option
from prmcal.harness.planning.saved import existing_plan
from prmcal.harness.share.bundle import About
from prmcal.harness.share.merge import MergeSummary
from prmcal.harness.share.merge import merge as merge_inputs
from prmcal.harness.share.submissions import Submitted, is_merged
from prmcal.harness.share.writing import Bundled, write_bundle
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.terminal import wrapped


@ending_cleanly()
def submit(
    directory: options.RunArgument,
    out: Annotated[Path, option("BUNDLE", WORDS["submit"]["out"])],
    cells: Annotated[list[str] | None, argument("CELLS", WORDS["submit"]["cells"])] = None,
    llm: options.LLMsOption = None,
    prm: options.PRMsOption = None,
    calibrator: options.CalibratorsOption = None,
    dataset: options.DatasetsOption = None,
    strategy: options.StrategiesOption = None,
    submitter: Annotated[str, option("NAME", WORDS["submit"]["submitter"])] = "",
    licence: Annotated[str, option("LICENCE", WORDS["submit"]["licence"])] = "",
    note: Annotated[str, option("TEXT", WORDS["submit"]["note"])] = "",
    texts: Annotated[bool, typer.Option("--texts", help=WORDS["submit"]["texts"])] = False,
    models: Annotated[bool, typer.Option("--models", help=WORDS["submit"]["models"])] = False,
    key: Annotated[Path | None, option("FILE", WORDS["submit"]["key"])] = None,
    with_paths: Annotated[bool, typer.Option("--with-paths", help=WORDS["submit"]["with_paths"])] = False,
) -> None:
    """Write results into a bundle for others.

    A bundle is one file with the chosen cells and all that is behind them: manifests, what the keys are made of,
    counts, rewards, grades, seeds, versions and hardware. Others merge it into their leaderboards, and verify it. Texts
    and model files are left out unless you ask for them. Nothing of your machine gets in.
    """
    if out.is_dir():
        raise StorageError(
            f"{out} is a folder. A bundle is one file: choose a name for --out, such as {out}.bundle."
        )
    if is_merged(directory):
        raise RunError(
            f"{directory} is a merged leaderboard. Send the folder itself, which others merge, or the bundles that it "
            "was merged from."
        )
    filters = options.given(llm=llm, prm=prm, calibrator=calibrator, dataset=dataset, strategy=strategy)
    folder = RunFolder(directory)
    plan = existing_plan(folder)
    chosen = None
    if cells or filters:
        named = {find_cell(folder.results(), name) for name in cells or []}
        chosen = [cell.cell_id for cell in plan.cells_with(filters) if not cells or cell.cell_id in named]
    about = About(submitter, licence, note)
    written = write_bundle(
        directory, chosen, out, about, texts=texts, models=models, key=key, with_paths=with_paths
    )
    typer.echo(_summary(out, written, len(plan.cells)), err=True)


def _summary(out: Path, written: Bundled, planned: int) -> str:
    submission = written.submission
    lines = [
        f"Wrote {out} ({file_size(out.stat().st_size)}): submission {submission.submission_id} with "
        f"{counted(written.cells, 'cell')} of {planned:,}."
    ]
    if written.failed:
        lines.append(f"{counted(written.failed, 'cell')} of them failed. The reasons are in the bundle.")
    left_out = ["hidden states"]
    if not submission.models:
        left_out.append("fits that change the PRM (--models)")
    if not submission.texts:
        left_out.append("texts and reference answers (--texts)")
    lines.append(f"Left out: {', '.join(left_out)}.")
    if submission.signed_by:
        lines.append(f"Signed by {submission.signed_by}.")
    else:
        lines.append("It is not signed. To sign it: --key FILE, such as ~/.ssh/id_ed25519")
    if not submission.licence:
        lines.append("It has no licence, so others may not publish it. To give one: --licence CC-BY-4.0")
    return wrapped("\n".join(lines))


_MOST_CONFLICTS = 5


@ending_cleanly()
def merge(
    out: Annotated[Path, argument("OUT", WORDS["merge"]["out"])],
    inputs: Annotated[list[Path], argument("DIR_OR_BUNDLE...", WORDS["merge"]["inputs"])],
) -> None:
    """Merge runs and bundles into one leaderboard.

    Equal results are one row. Other seeds, versions and conditions are rows of their own, and columns say what differs.
    Results that contradict each other are shown, and both stay. The order of the inputs does not matter. If a merge is
    interrupted, run the same command again.
    """
    file = next((path for path in (out, *out.parents) if path.exists() and not path.is_dir()), None)
    if file is not None:
        raise RunError(f"{file} is a file. Give a new folder or a merged leaderboard as OUT.")
    summary = merge_inputs(out, inputs)
    for line in (*_lines(summary), *_conflicts(summary), f"Next: prmcal leaderboard {out}"):
        # The following lines of an item are indented like its first one.
        typer.echo(wrapped(line.strip(), indent="  " if line.startswith(" ") else ""))


def _lines(summary: MergeSummary) -> Iterator[str]:
    union = summary.union
    yield (
        f"Added {counted(len(summary.added), 'submission')} and {counted(summary.verifications, 'verification')} in "
        f"{duration(summary.seconds)}. {counted(len(summary.known), 'submission')} had been merged before."
    )
    for each in sorted(summary.added, key=lambda each: each.place):
        done = sum(each.is_done(cell) for cell in each.plan.cells)
        yield f"  {_named(each)}: {counted(done, 'finished cell')}."
    seeds = {each.cell.cell_id for cells in union.seeds() for each in cells}
    others = [each for name, each in union.cells.items() if each.cell.variant and name not in seeds]
    conflicts = sum(each.conflict for each in union.cells.values())
    yield (
        f"The leaderboard has {counted(len(union.cells), 'cell')} from "
        f"{counted(len(union.submissions), 'submission')}: {len(seeds):,} with several seeds or replicates, "
        f"{sum(not each.conflict for each in others):,} of other versions or conditions, {conflicts:,} in conflict."
    )
    if union.replicates:
        yield (
            f"{counted(len(union.replicates), 'artifact')} with different content, by models that are not "
            "deterministic or computed from these: their rows are replicates, compared as several seeds are."
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
        yield (
            "If their model does not give the same bytes twice, set 'deterministic: false' at it in the grid files. "
            "Run and submit again, which computes nothing, and merge into a new folder: they are replicates then."
        )


def _named(submission: Submitted) -> str:
    who = submission.submission.submitter or f"run {submission.record.run_id}"
    return f"{submission.submission_id} ({who})"
