"""Commands that write or read files: report, export, export-prm, export-success, import-first-pass."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prmcal.harness.cli import complete
from prmcal.harness.cli.app import app
from prmcal.harness.cli.options import DEFAULT_RUN, ResultsArgument, ResultsArguments, RunArgument, RunOption

__all__: list[str] = []


@app.command()
def report(
    directory: ResultsArgument,
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="REPORT", help="The folder of the report: new, empty, or an earlier report."
        ),
    ],
) -> None:
    """Write a report with tables and figures.

    Tables are written as Markdown, CSV and LaTeX, and figures as PNG and PDF.
    """
    from prmcal.harness.report import write_report

    files = write_report(directory, out)
    typer.echo(f"Wrote {len(files)} files to {out}. Start with {out / 'README.md'}.", err=True)


@app.command()
def export(
    directories: ResultsArguments,
    html: Annotated[
        Path,
        typer.Option(
            "--html", metavar="SITE", help="The folder of the site: new, empty, or an earlier site."
        ),
    ],
) -> None:
    """Write the leaderboards as a static site.

    A browser can open its files without a server, and GitHub Pages can host it. With several runs, its first page
    compares them.
    """
    from prmcal.harness.site import write_site

    files = write_site(directories, html)
    typer.echo(f"Wrote {len(files)} files to {html}. Open {html / 'index.html'}.", err=True)


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
        Path, typer.Option("--out", metavar="FOLDER", help="The folder of the checkpoint: new or empty.")
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
    from prmcal.harness.commands.exchange.prm import export_calibrated_prm

    export_calibrated_prm(directory, cell, out, level)
    typer.echo(f"Wrote the calibrated PRM to {out}. See {out / 'README.md'}.", err=True)


@app.command(name="export-success")
def export_success_rates(
    directory: RunArgument,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="A file that ends in .jsonl, .json or .parquet.")
    ],
) -> None:
    """Write the success rates of all prefixes.

    The file has the format of the published calibration set.
    """
    from prmcal.harness.commands.exchange.success import export_success

    typer.echo(f"Wrote {export_success(directory, out):,} prefixes to {out}.", err=True)


@app.command(name="import-first-pass")
def import_first_passes(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="The files inference_chunk_*.json, in order.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="RECORDING", help="The recording (JSON lines).")],
    rewards: Annotated[
        Path | None, typer.Option("--rewards", metavar="NPY", help="Rewards of shape (questions, samples).")
    ] = None,
) -> None:
    """Make a recording from published solutions.

    A grid such as the shipped grid `recorded` replays the recording.
    """
    from prmcal.harness.commands.exchange.first_pass import import_first_pass

    typer.echo(f"Wrote {import_first_pass(files, out, rewards):,} questions to {out}.", err=True)
