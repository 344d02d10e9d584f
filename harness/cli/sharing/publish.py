"""``prmcal publish``: what was written, and which submissions have no licence, in words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prmcal.errors import PrmcalError
from prmcal.harness.cli.app import ending_cleanly
from prmcal.harness.cli.options import argument, option
from prmcal.harness.site.publish import publish as publish_to
from prmcal.harness.site.publish import without_licence, write_recipe
from prmcal.harness.terminal import wrapped

_MOST_NAMED = 10


@ending_cleanly()
def publish(
    merged: Annotated[Path | None, argument("MERGED", "The folder of a merged leaderboard.")] = None,
    html: Annotated[
        Path | None,
        option("SITE", "Write a static site: to a new or empty folder, or over an earlier site.", "--html"),
    ] = None,
    every_eval_ever: Annotated[
        Path | None, option("FOLDER", "Write records of the schema Every Eval Ever 0.3.", "--every-eval-ever")
    ] = None,
    hub: Annotated[
        Path | None, option("FOLDER", "Write .eval_results for the PRMs on the Hugging Face hub.", "--hub")
    ] = None,
    benchmark: Annotated[
        str | None,
        option("ORG/NAME", "With --hub: the hub's data set repository of this leaderboard.", "--benchmark"),
    ] = None,
    recipe: Annotated[
        Path | None,
        option(
            "FOLDER",
            "Write a results repository, in which a pull request with a submission is verified by itself.",
            "--recipe",
        ),
    ] = None,
) -> None:
    """Publish a merged leaderboard.

    The site lists the submissions with their tiers of verification. The exports are for other collections of results.
    --recipe needs no leaderboard: it starts a repository that makes one.
    """
    if recipe is not None:
        files = write_recipe(recipe)
        typer.echo(
            f"Wrote a results repository of {len(files)} files to {recipe}. Start with README.md.", err=True
        )
    if merged is not None:
        for line in publish_to(merged, html, every_eval_ever, hub, benchmark):
            typer.echo(line, err=True)
        names = without_licence(merged)
        if names:
            more = f", and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
            warning = (
                "prmcal: warning: Others may not publish submissions without a licence: "
                f"{', '.join(names[:_MOST_NAMED])}{more}."
            )
            typer.echo(wrapped(warning, hanging="  "), err=True)
    elif recipe is None:
        raise PrmcalError("Give the folder of a merged leaderboard, or --recipe FOLDER.")
