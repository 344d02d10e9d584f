"""``prmcal verify``: check a submission in tiers, and write the record."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from prmcal.db.metrics import TIERS, Tier
from prmcal.db.text.formats import duration
from prmcal.errors import PrmcalError
from prmcal.harness.cli.app import ExitCode, ending_cleanly
from prmcal.harness.cli.options import PluginOption, argument, load_plugins, option, tier_named
from prmcal.harness.share.verify_record import Check, Verification, write_verification
from prmcal.harness.storage.folder import check_text
from prmcal.harness.terminal import text_table, wrapped
from prmcal.harness.verify.again import Asked
from prmcal.harness.verify.subject import opened
from prmcal.harness.verify.tiers import verified
from prmcal.registry.messages import reading

_SHOWN_CELLS = 3
_WIDTH = 80
_SECONDS_BETWEEN_LINES = 5.0


@ending_cleanly()
def verify(
    bundle: Annotated[
        Path, argument("BUNDLE", "A bundle, an unpacked bundle, or the output folder of a run.")
    ],
    tier: Annotated[
        str,
        option(
            "TIER",
            "The highest tier: consistent, graded, scored or reproduced. Each includes those before it.",
        ),
    ] = "consistent",
    by: Annotated[str, option("NAME", "Your name, for the record.")] = "",
    out: Annotated[
        Path | None, option("RECORD", "Write the record to this JSON file.", "--out", dir_okay=False)
    ] = None,
    texts_from: Annotated[
        Path | None, option("PATH", "A bundle or a folder with the texts, if the bundle lacks them.")
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
        Path | None, option("FILE", "Names of keys that sign, in the format of OpenSSH.", dir_okay=False)
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
    highest = tier_named(tier)
    load_plugins(plugin)
    for path in (bundle, allowed_signers):
        if path is not None and not path.exists():
            raise PrmcalError(f"'{path}' does not exist.")
    if out is not None and not out.parent.is_dir():
        raise PrmcalError(f"The folder {out.parent} for the record does not exist. Create it first.")
    if out is not None and out.exists() and out.samefile(bundle):
        raise PrmcalError(
            f"{out} is what is verified, so the record cannot replace it. Choose another --out."
        )
    with reading("The record cannot be written", "Write the name in UTF-8.", PrmcalError):
        check_text("--by", by)
    asked = Asked(
        workers or os.cpu_count() or 1, results, share, questions, all_fits, texts_from, tuple(plugin or ())
    )
    started = shown = time.monotonic()
    agreed = yes or not sys.stdin.isatty()

    def begins(each: Tier, cost: str) -> bool:
        _say(wrapped(f"Tier '{each}' {cost}.", hanging="  "))
        return each == TIERS[0] or agreed or typer.confirm("Run it?", err=True)

    def works(line: str) -> None:
        nonlocal shown
        if sys.stderr.isatty() and time.monotonic() - shown > _SECONDS_BETWEEN_LINES:
            shown = time.monotonic()
            _say(f"  {line}")

    with opened(bundle, allowed_signers) as subject:
        found = verified(subject, highest, asked, begins, works, by, seed)
    text = rendered(found, highest, time.monotonic() - started)
    try:
        if out is not None:
            write_verification(out, found)
            text += f"\n\nRecord: {out}"
    finally:  # The work is done, so its outcome is shown although there is no record.
        typer.echo(text)
    if not found.passed:
        raise typer.Exit(ExitCode.FAILED_CHECKS)


def rendered(found: Verification, asked: Tier, seconds: float) -> str:
    """Return the outcome of a verification, in lines of at most 80 columns.

    Parameters
    ----------
    found : Verification
    asked : {"consistent", "graded again", "scored again", "reproduced"}
        The tier that was asked for.
    seconds : float
        What it took.
    """
    name = f"The submission {found.submission}" if found.submission else "The run"
    outcome = "passed" if found.passed else "did NOT pass"
    lines = [f"{name} {outcome} the tier '{found.tier}', in {duration(seconds)}."]
    if found.passed and found.tier != asked:
        lines.append(f"The tier '{asked}' was not run.")
    rows = [(check.tier, check.check, _outcome(check), f"{check.n:,}") for check in found.checks]
    table = ["", text_table(("tier", "check", "outcome", "n"), rows, _WIDTH)]
    told = [
        wrapped(f"{check.check}: {check.message}{_cells(check)}", _WIDTH, hanging="  ")
        for check in found.checks
        if found.passed or not check.passed
    ]
    # What failed comes first.
    return "\n".join([*lines, *([*table, "", *told] if found.passed else ["", *told, *table])])


def _outcome(check: Check) -> str:
    if not check.n and check.message.startswith("Not checked"):
        return "not checked"
    return "passed" if check.passed else "FAILED"


def _cells(check: Check) -> str:
    if not check.cells:
        return ""
    more = f" and {len(check.cells) - _SHOWN_CELLS:,} more" if len(check.cells) > _SHOWN_CELLS else ""
    return f" Cells ({len(check.cells):,}): {', '.join(check.cells[:_SHOWN_CELLS])}{more}."


def _say(text: str) -> None:
    with suppress(OSError):
        typer.echo(text, err=True)
