"""Commands for files: export-prm, export-success, gc, import-first-pass, rebuild."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from prmcal.harness.cli import complete
from prmcal.harness.cli.app import app
from prmcal.harness.cli.options import DEFAULT_RUN, RunArgument, RunOption

__all__: list[str] = []


@app.command(name="export-prm")
def export_prm(
    cell: Annotated[
        str,
        typer.Argument(
            metavar="CELL",
            help="A cell with a calibrator that fine-tunes the PRM, such as quantile-lora: its number or its id.",
            autocompletion=complete.cells,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FOLDER", help="The folder of the checkpoint: new or empty."),
    ],
    level: Annotated[
        float,
        typer.Option(
            "--level", metavar="BETA", help="The reward of the checkpoint: a level of the calibrator."
        ),
    ] = 0.5,
    directory: RunOption = DEFAULT_RUN,
) -> None:
    """Write a calibrated PRM as a checkpoint.

    Its README.md shows how to load it with transformers and vLLM, and its calibration before and after.
    """
    from prmcal.harness.commands.files.prm import export_calibrated_prm

    export_calibrated_prm(directory, cell, out, level)
    typer.echo(f"Wrote the calibrated PRM to {out}. See {out / 'README.md'}.", err=True)


@app.command(name="export-success")
def export_success_rates(
    directory: RunArgument,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FILE", help="A file that ends in .jsonl, .json or .parquet."),
    ],
) -> None:
    """Write the success rates of all prefixes.

    The file has the format of the published calibration set.
    """
    from prmcal.harness.commands.files.success import export_success

    typer.echo(f"Wrote {export_success(directory, out):,} prefixes to {out}.", err=True)


@app.command()
def gc(
    directory: RunArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
) -> None:
    """Delete what the grid of a run no longer needs.

    These are artifacts and checkpoints of earlier forms of the grid, and what killed runs left half written. The
    command says how much there is and asks. Without a terminal it deletes only with --yes.
    """
    from prmcal.harness.commands.files.gc import delete_unneeded

    def agreed() -> bool:
        return yes or typer.confirm("Delete these folders?")

    delete_unneeded(directory, typer.echo, agreed if yes or sys.stdin.isatty() else None)


@app.command(name="import-first-pass")
def import_first_passes(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="The files inference_chunk_*.json, in order."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="RECORDING", help="The recording (JSON lines).")],
    rewards: Annotated[
        Path | None,
        typer.Option("--rewards", metavar="NPY", help="Rewards of shape (questions, samples)."),
    ] = None,
) -> None:
    """Make a recording from published solutions.

    A grid such as the shipped grid `recorded` replays the recording.
    """
    from prmcal.harness.commands.files.first_pass import import_first_pass

    typer.echo(f"Wrote {import_first_pass(files, out, rewards):,} questions to {out}.", err=True)


@app.command()
def rebuild(directory: RunArgument) -> None:
    """Build the database again from the artifacts.

    Nothing is sampled. It is needed after a version of prmcal whose database has another layout, and for a database
    that is damaged.
    """
    from prmcal.harness.execution.rebuild import rebuild_database
    from prmcal.harness.merging.merge import rebuild_merged
    from prmcal.harness.merging.submissions.folder import is_merged

    cells = rebuild_merged(directory) if is_merged(directory) else rebuild_database(directory)
    typer.echo(f"Rebuilt the database of {directory}: {cells} cells.", err=True)
