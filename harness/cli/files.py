"""Commands for the folders of runs: export-prm, gc, merge, rebuild."""

import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal as file_size

from prmcal.db.queries.cells import find_cell
from prmcal.db.run_folder import artifacts_root, checkpoints_root, finished_artifacts
from prmcal.db.text.formats import counted
from prmcal.errors import PrmcalError, StorageError
from prmcal.harness.cli import options
from prmcal.harness.cli.app import ExitCode, ending_cleanly
from prmcal.harness.cli.options import argument, option, tell
from prmcal.harness.execution.run import rebuild_database
from prmcal.harness.jobs.parameters import FitParameters
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.harness.merging.again import compare_again
from prmcal.harness.merging.merge import merge as merge_folders
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.saved import existing_plan, load_plugins_of
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import storage_errors
from prmcal.harness.storage.written import fresh_folder
from prmcal.harness.terminal import text_table, wrapped
from prmcal.registry.plugins import calibrators, prms

_CHECK = (
    "Write nothing. Compute the metrics, strategies and curves again, compare them with what is stored, and end with "
    "exit code 4 if something differs."
)
_FINE_TUNED_CELL = "A cell with a calibrator that fine-tunes the PRM, such as quantile-lora: its number or its id."
# The folder of an artifact or of checkpoints, or the temporary folder of an artifact, which a killed run leaves.
_NAME = re.compile(r"(?P<key>[0-9a-f]{24})|\.[0-9a-f]{24}-\w+")


def gc(
    directory: options.RunArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
) -> None:
    """Delete what the grid of a run no longer needs.

    These are artifacts and checkpoints of earlier forms of the grid, and unfinished files of killed runs. The command
    says how much there is and asks. Without a terminal it deletes only with --yes.
    """
    folder = RunFolder(directory)
    folder.record()  # It raises if there is no run: the lock would create the folder.
    with folder.lock():
        name, plan = folder.record().grid["name"], existing_plan(folder)
        unneeded = _unneeded(directory, plan)
        if not unneeded:
            typer.echo(wrapped(f"The grid '{name}' needs everything in {directory}."))
            return
        sizes: dict[str, list[int]] = {}
        for path in unneeded:
            size = sum(file.lstat().st_size for file in path.rglob("*") if not file.is_dir())
            sizes.setdefault(path.parent.name, []).append(size)
        rows = [
            [kind.replace("_", " "), f"{len(of_kind):,}", file_size(sum(of_kind))] for kind, of_kind in sizes.items()
        ]
        total_size = file_size(sum(map(sum, sizes.values())))
        rows.append(["all", f"{len(unneeded):,}", total_size])
        typer.echo(wrapped(f"The grid '{name}' does not need these artifacts and checkpoints:"))
        typer.echo(f"\n{text_table(['kind', 'folders', 'size'], rows)}\n")
        if not yes and not sys.stdin.isatty():
            again = f"prmcal gc {shlex.quote(str(directory))} --yes"
            typer.echo(wrapped(f"Nothing was deleted. To delete these folders: {again}"))
            return
        if not yes and not typer.confirm("Delete these folders?"):
            typer.echo("Nothing was deleted.")
            return
        for path in unneeded:
            try:
                shutil.rmtree(path)
            except OSError as error:
                raise StorageError(
                    f"{path} cannot be deleted ({error.strerror or error}). Remove it, and run the same command again."
                ) from error
        typer.echo(f"Deleted {counted(len(unneeded), 'folder')} ({total_size}).")


def _unneeded(directory: Path, plan: Plan) -> list[Path]:
    """Return the folders of artifacts that no job makes, and of checkpoints that no unfinished job needs."""
    needed = {(shard.ref.kind, shard.ref.key) for shard in plan.shards()}
    roots = {path: {key for kind, key in needed if kind == path.name} for path in _folders(artifacts_root(directory))}
    finished = {(kind, key) for kind in {kind for kind, _ in needed} for key in finished_artifacts(directory, kind)}
    roots[checkpoints_root(directory)] = {key for _, key in needed - finished}
    return [
        path
        for root, keys in roots.items()
        for path in _folders(root)
        if (name := _NAME.fullmatch(path.name)) and name["key"] not in keys
    ]


def _folders(root: Path) -> list[Path]:
    if not root.is_dir():
        return []
    return sorted(path for path in root.iterdir() if path.is_dir() and not path.is_symlink())


@ending_cleanly()
def merge(
    runs: Annotated[
        list[Path], argument("RUN...", "Output folders of runs. Common parts are taken from the first run.")
    ],
    out: Annotated[Path, option("DIR", "A new folder, or the output folder of a run that counts as the first.")],
) -> None:
    """Join the results of several runs in one folder.

    All commands read it like the folder of one run. It has the rows of all runs. If several runs have the same row, the
    first run's row stays, and it says by how much another run differs. If a merge is interrupted, run the same command
    again.
    """
    union = merge_folders(runs, out)
    cells = union.plan.cells
    done, different = sum(bool(cell.source) for cell in cells), sum(bool(cell.difference) for cell in cells)
    runs_in_words, cells_in_words = counted(len(union.sources), "run"), counted(len(cells), "cell")
    lines = [f"Merged {runs_in_words} into {out}: {cells_in_words}, {done:,} done."]
    if different:
        lines.append(
            f"Runs differ under one key in {counted(different, 'cell')}. The values are those of the first run. "
            f"`prmcal leaderboard {out} --table calibration` says by how much they differ."
        )
    tell("\n".join(map(wrapped, [*lines, f"Next: prmcal leaderboard {out}"])))


@ending_cleanly()
def rebuild(
    directory: options.RunArgument,
    check: Annotated[bool, typer.Option("--check", help=_CHECK)] = False,
    plugin: options.PluginOption = None,
) -> None:
    """Build the database again from the artifacts.

    Nothing is sampled. It is needed if the database is damaged, or has the layout of another version of prmcal.
    """
    if not check:
        cells = rebuild_database(directory)
        typer.echo(f"Rebuilt the database of {directory}: {cells} cells.", err=True)
        return
    options.load_plugins(plugin)
    compared = compare_again(directory, plugin or [])
    results = counted(compared.agree + len(compared.differing), "result")
    lines = [f"{compared.agree:,} of {results} agree with what is stored when they are computed again."]
    lines += [f"Not computed again: {counted(count, 'result')}. {why}" for why, count in compared.unchecked.items()]
    for name, differing in compared.differing.items():
        lines += [f"{name}:", *(f"  {line}" for line in differing)]
    typer.echo("\n".join(wrapped(line, hanging="  ") for line in lines))
    if compared.differing:
        raise typer.Exit(ExitCode.FAILED_CHECKS)


def export_prm(
    cell: Annotated[str, argument("CELL", _FINE_TUNED_CELL)],
    out: Annotated[Path, option("FOLDER", "The folder of the checkpoint: new or empty.")],
    level: Annotated[float, option("BETA", "The reward of the checkpoint: a level of the calibrator.")] = 0.5,
    directory: options.RunOption = options.DEFAULT_RUN,
) -> None:
    """Write a calibrated PRM as a checkpoint.

    Its README.md shows how to load it with transformers and vLLM.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise PrmcalError(f"{out} already exists. Choose a new or an empty folder for --out.")
    folder = RunFolder(directory)
    cell_id = find_cell(folder.results(), cell)
    plan = existing_plan(folder)
    fits = plan.part([planned for planned in plan.cells if planned.cell_id == cell_id]).jobs_of(FitParameters)
    if not fits:
        raise PrmcalError(f"The cell '{cell_id}' has no calibrator. Choose a cell with a calibrator.")
    (shard,) = fits[0].shards
    fit = shard.parameters
    if folder.store.manifest(shard.ref) is None:
        raise PrmcalError(
            f"The calibrator of the cell '{cell_id}' is not fitted yet. Run the grid again to continue it."
        )
    load_plugins_of(folder)
    calibrator, prm = fit.calibrator.build(calibrators), fit.prm.build(prms)
    guard = plugin_guard("calibrator", fit.calibrator.name, "export the PRM")
    with storage_errors(out), fresh_folder(out.resolve()) as fresh, guard:
        calibrator.load(folder.store.folder(shard.ref)).export(prm, fresh / out.resolve().name, level)
        (fresh / out.resolve().name).rename(out)
    tell(f"Wrote the calibrated PRM to {out}. See {out / 'README.md'}.")
