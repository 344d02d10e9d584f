"""``prmcal verify``: check a submission in tiers, and write the record."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path

import typer

from prmcal.db.metrics import TIERS, Tier
from prmcal.db.text.formats import duration
from prmcal.errors import PrmcalError
from prmcal.harness.share.verify_record import Check, Verification, write_verification
from prmcal.harness.storage.folder import check_text
from prmcal.harness.terminal import text_table, wrapped
from prmcal.harness.verify.subject import opened
from prmcal.harness.verify.tiers import Asked, verified

__all__ = ["verify"]

_SHOWN_CELLS = 3
_WIDTH = 80
_SECONDS_BETWEEN_LINES = 5.0


def verify(
    path: Path,
    tier: Tier,
    asked: Asked,
    *,
    by: str = "",
    out: Path | None = None,
    seed: int | None = None,
    yes: bool = False,
    allowed_signers: Path | None = None,
) -> tuple[str, bool]:
    """Verify a bundle or the folder of a run.

    Parameters
    ----------
    path : Path
    tier : {"consistent", "graded again", "scored again", "reproduced"}
        The highest tier.
    asked : Asked
    by : str
        The name of the verifier.
    out : Path, optional
        Where the record is written.
    seed : int, optional
        The seed of random choices, to repeat a verification.
    yes : bool
        Whether tiers beyond the first are run without asking. Without a terminal they are.
    allowed_signers : Path, optional
        A file of allowed signers in the format of OpenSSH.

    Returns
    -------
    text : str
        What was found: the answer first, then what failed, then a table of all checks.
    passed : bool

    Raises
    ------
    PrmcalError
        If the bundle is damaged, or an argument is wrong.
    """
    if not path.exists():
        raise PrmcalError(f"There is no bundle or folder {path}.")
    if allowed_signers is not None and not allowed_signers.is_file():
        raise PrmcalError(f"There is no file of allowed signers {allowed_signers}.")
    if out is not None and not out.parent.is_dir():
        raise PrmcalError(
            f"The folder {out.parent} for the record does not exist. Create it, or choose another --out."
        )
    if out is not None and out.exists() and (not out.is_file() or out.samefile(path)):
        what = "what is verified" if out.samefile(path) else "not a file"
        raise PrmcalError(f"{out} is {what}, so the record cannot replace it. Choose another --out.")
    try:
        check_text("--by", by)
    except ValueError as error:
        raise PrmcalError(f"{error}. Write the name in UTF-8.") from error
    started, shown = time.monotonic(), 0.0
    agreed = yes or not sys.stdin.isatty()

    def begins(each: Tier, cost: str) -> bool:
        _say(wrapped(f"Tier '{each}' {cost}.", hanging="  "))
        return each == TIERS[0] or agreed or typer.confirm("Run it?", err=True)

    def works(line: str) -> None:
        nonlocal shown
        if sys.stderr.isatty() and time.monotonic() - shown > _SECONDS_BETWEEN_LINES:
            shown = time.monotonic()
            _say(f"  {line}")

    with opened(path, allowed_signers) as subject:
        found = verified(subject, tier, asked, begins, works, by, seed)
    text = rendered(found, tier, time.monotonic() - started)
    if out is not None:
        try:
            write_verification(out, found)
        except PrmcalError:
            _say(text)  # The work is done, so its outcome is shown although there is no record.
            raise
    return text + (f"\n\nRecord: {out}" if out is not None else ""), found.passed


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
    failed = [check for check in found.checks if not check.passed]
    name = f"The submission {found.submission}" if found.submission else "The run"
    lines = []
    if failed:
        lines.append(f"{name} did NOT pass the tier '{found.tier}', in {duration(seconds)}.")
        for check in failed:
            lines += ["", wrapped(f"{check.check}: {check.message}", _WIDTH, hanging="  "), *_cells(check)]
    else:
        lines.append(f"{name} passed the tier '{found.tier}', in {duration(seconds)}.")
        if found.tier != asked:
            lines.append(f"The tier '{asked}' was not run.")
    rows = [(check.tier, check.check, _outcome(check), f"{check.n:,}") for check in found.checks]
    lines += ["", text_table(("tier", "check", "outcome", "n"), rows, _WIDTH)]
    if not failed:
        told = [f"{check.check}: {check.message}" for check in found.checks]
        lines += ["", *(wrapped(each, _WIDTH, hanging="  ") for each in told)]
    return "\n".join(lines)


def _outcome(check: Check) -> str:
    if not check.n and check.message.startswith("Not checked"):
        return "not checked"
    return "passed" if check.passed else "FAILED"


def _cells(check: Check) -> list[str]:
    if not check.cells:
        return []
    shown = ", ".join(check.cells[:_SHOWN_CELLS])
    more = len(check.cells) - _SHOWN_CELLS
    return [
        wrapped(
            f"Cells ({len(check.cells):,}): {shown}{f' and {more:,} more' if more > 0 else ''}.",
            _WIDTH,
            indent="  ",
        )
    ]


def _say(text: str) -> None:
    with suppress(OSError):
        typer.echo(text, err=True)
