"""Commands that share results: submit, verify, merge, diff, publish."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prmcal.errors import PrmcalError
from prmcal.harness.cli.app import ExitCode, ending_cleanly
from prmcal.harness.cli.options import (
    CalibratorsOption,
    DatasetsOption,
    FormatOption,
    LLMsOption,
    PagerOption,
    PluginOption,
    PRMsOption,
    RunArgument,
    StrategiesOption,
    WideOption,
    completing_cells,
    given,
    load_plugins,
)
from prmcal.harness.terminal import UNLIMITED
from prmcal.harness.terminal import show as show_text

# submit


@ending_cleanly()
def submit(
    directory: RunArgument,
    out: Annotated[Path, typer.Option("--out", metavar="BUNDLE", help="The file to write.")],
    cells: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CELLS",
            help="Cells by number, id or part of an id. Default: all finished ones.",
            autocompletion=completing_cells,
        ),
    ] = None,
    llm: LLMsOption = None,
    prm: PRMsOption = None,
    calibrator: CalibratorsOption = None,
    dataset: DatasetsOption = None,
    strategy: StrategiesOption = None,
    submitter: Annotated[
        str, typer.Option(metavar="NAME", help="Who submits: a person or a laboratory.")
    ] = "",
    licence: Annotated[
        str, typer.Option(metavar="LICENCE", help="The licence of the results, such as CC-BY-4.0.")
    ] = "",
    note: Annotated[str, typer.Option(metavar="TEXT", help="A note for the readers.")] = "",
    texts: Annotated[
        bool, typer.Option("--texts", help="Include the texts of questions and trajectories.")
    ] = False,
    models: Annotated[bool, typer.Option("--models", help="Include the fits that change the PRM.")] = False,
    key: Annotated[
        Path | None,
        typer.Option("--key", metavar="FILE", help="Sign the bundle with this SSH key."),
    ] = None,
    with_paths: Annotated[
        bool,
        typer.Option(
            "--with-paths", help="Include arguments that tell of this machine, such as the path of a model."
        ),
    ] = False,
) -> None:
    """Write results into a bundle for others.

    A bundle is one file with the chosen cells and all that is behind them: manifests, what the keys are made of,
    counts, rewards, grades, seeds, versions and hardware. Others merge it into their leaderboards, and verify it. Texts
    and model files are left out unless you ask for them. Nothing of your machine gets in.
    """
    from prmcal.harness.cli.sharing.submit import submit as write
    from prmcal.harness.share.bundle import About

    told = write(
        directory,
        cells or [],
        given(llm=llm, prm=prm, calibrator=calibrator, dataset=dataset, strategy=strategy),
        out,
        About(submitter, licence, note),
        texts=texts,
        models=models,
        key=key,
        with_paths=with_paths,
    )
    typer.echo(told, err=True)


# verify


@ending_cleanly()
def verify(
    bundle: Annotated[
        Path,
        typer.Argument(
            metavar="BUNDLE",
            help="A bundle, an unpacked bundle, or the output folder of a run.",
        ),
    ],
    tier: Annotated[
        str,
        typer.Option(
            metavar="TIER",
            help="The highest tier: consistent, graded, scored or reproduced. Each includes those before it.",
        ),
    ] = "consistent",
    by: Annotated[str, typer.Option(metavar="NAME", help="Your name, for the record.")] = "",
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="RECORD", help="Write the record to this JSON file."),
    ] = None,
    texts_from: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="A bundle or a folder with the texts, if the bundle lacks them.",
        ),
    ] = None,
    share: Annotated[
        float, typer.Option(min=1e-6, max=1.0, help="The share of trajectories that are scored again.")
    ] = 0.02,
    results: Annotated[
        float,
        typer.Option(min=1e-6, max=1.0, help="The share of results that the first tier computes again."),
    ] = 1.0,
    questions: Annotated[
        int, typer.Option(min=1, help="The questions of each LLM and split that are sampled again, at least.")
    ] = 30,
    all_fits: Annotated[
        bool, typer.Option("--all-fits", help="Repeat also the fits that need the PRM or its hidden states.")
    ] = False,
    plugin: PluginOption = None,
    allowed_signers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Names of keys that sign, in the format of OpenSSH."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes of the first tier. Default: the number of cores.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="The seed of a record, to repeat its verification.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Run all tiers without asking.")] = False,
) -> None:
    """Check a submission in tiers: consistent, graded again, scored again, reproduced.

    The first tier runs no model. It checks that keys hash to themselves, and computes all metrics and intervals again.
    The second grades the texts, the third scores a random share of them with the PRM and repeats fits, and the fourth
    samples from the LLM. The cost of each tier is shown before it begins.
    """
    import os

    from prmcal.harness.cli.options import tier_named
    from prmcal.harness.cli.sharing.verify import verify as check
    from prmcal.harness.verify.tiers import Asked

    highest = tier_named(tier)
    load_plugins(plugin)
    text, passed = check(
        bundle,
        highest,
        Asked(
            workers or os.cpu_count() or 1,
            results,
            share,
            questions,
            all_fits,
            texts_from,
            tuple(plugin or ()),
        ),
        by=by,
        out=out,
        seed=seed,
        yes=yes,
        allowed_signers=allowed_signers,
    )
    typer.echo(text)
    if not passed:
        raise typer.Exit(ExitCode.FAILED_CHECKS)


# merge


@ending_cleanly()
def merge(
    out: Annotated[
        Path,
        typer.Argument(metavar="OUT", help="A new folder, or a merged leaderboard, which is extended."),
    ],
    inputs: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR_OR_BUNDLE...",
            help="Output folders of runs, bundles, other merged leaderboards, and verifications (JSON).",
        ),
    ],
) -> None:
    """Merge runs and bundles into one leaderboard.

    Equal results are one row. Other seeds, versions and conditions are rows of their own, and columns say what differs.
    Results that contradict each other are shown, and both stay. The order of the inputs does not matter. If a merge is
    interrupted, run the same command again.
    """
    from prmcal.harness.cli.sharing.merge import merge_into

    typer.echo(merge_into(out, inputs), nl=False)


# diff


def diff(
    first: Annotated[
        Path,
        typer.Argument(metavar="A", help="The output folder of a run, or a merged leaderboard."),
    ],
    other: Annotated[Path, typer.Argument(metavar="B", help="Another one.")],
    table: Annotated[
        str, typer.Option(metavar="TABLE", help="calibration, scaling or league.")
    ] = "calibration",
    output_format: FormatOption = "table",
    every: Annotated[bool, typer.Option("--all", help="Show all cells that both have.")] = False,
    wide: WideOption = False,
    pager: PagerOption = True,
) -> None:
    """Compare two leaderboards.

    It shows the cells with the largest differences, with paired tests, the cells that only one of them has, and the
    versions and conditions that differ.
    """
    from prmcal.harness.cli.sharing.diff import render_diff

    text = render_diff(first, other, table, output_format, UNLIMITED if wide else None, every)
    show_text(text, pager and output_format == "table")


# publish


@ending_cleanly()
def publish(
    merged: Annotated[
        Path | None,
        typer.Argument(metavar="MERGED", help="The folder of a merged leaderboard."),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="SITE",
            help="Write a static site: to a new or empty folder, or over an earlier site.",
        ),
    ] = None,
    every_eval_ever: Annotated[
        Path | None,
        typer.Option(
            "--every-eval-ever",
            metavar="FOLDER",
            help="Write records of the schema Every Eval Ever 0.3.",
        ),
    ] = None,
    hub: Annotated[
        Path | None,
        typer.Option(
            "--hub",
            metavar="FOLDER",
            help="Write .eval_results for the PRMs on the Hugging Face hub.",
        ),
    ] = None,
    benchmark: Annotated[
        str | None,
        typer.Option(
            "--benchmark",
            metavar="ORG/NAME",
            help="With --hub: the hub's data set repository of this leaderboard.",
        ),
    ] = None,
    recipe: Annotated[
        Path | None,
        typer.Option(
            "--recipe",
            metavar="FOLDER",
            help="Write a results repository, in which a pull request with a submission is verified by itself.",
        ),
    ] = None,
) -> None:
    """Publish a merged leaderboard.

    The site lists the submissions with their tiers of verification. The exports are for other collections of results.
    --recipe needs no leaderboard: it starts a repository that makes one.
    """
    from prmcal.harness.cli.sharing.publish import published
    from prmcal.harness.site.publish import Targets, write_recipe

    if recipe is not None:
        files = write_recipe(recipe)
        typer.echo(
            f"Wrote a results repository of {len(files)} files to {recipe}. Start with README.md.", err=True
        )
    if merged is not None:
        for line in published(merged, Targets(html, every_eval_ever, hub, benchmark)):
            typer.echo(line, err=True)
    elif recipe is None:
        raise PrmcalError("Give the folder of a merged leaderboard, or --recipe FOLDER.")
