"""What the commands share: formats of the output, and the check of an option."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from prmcal.db.text.formats import duration
from prmcal.errors import PrmcalError

if TYPE_CHECKING:
    import pandas as pd

    from prmcal.db.tiers import Tier
    from prmcal.harness.costs.estimate import Work
    from prmcal.harness.terminal.tables import Column

__all__ = ["FORMATS", "exported", "hidden_note", "one_of", "plain_row", "tier_named", "time_left"]

FORMATS = ("table", "json", "csv", "markdown")


def one_of(option: str, value: str, known: Sequence[str]) -> None:
    """Check that the value of an option is known.

    Raises
    ------
    PrmcalError
        If it is not: the message names the known values.
    """
    if value not in known:
        raise PrmcalError(f"{option} must be one of {', '.join(known)}. Got '{value}'.")


def tier_named(name: str) -> Tier:
    """Return the tier of verification that a user means by its name or by its first word, such as ``graded``.

    Raises
    ------
    PrmcalError
        If there is none.
    """
    from prmcal.db.tiers import TIERS

    short = {tier.split()[0]: tier for tier in TIERS}
    for tier in TIERS:
        if tier == short.get(name, name):
            return tier
    raise PrmcalError(f"--tier must be one of {', '.join(short)}. Got '{name}'.")


def exported(frame: pd.DataFrame, output_format: str) -> str:
    """Return all columns of a table as ``csv`` or ``json``."""
    if output_format == "csv":
        text: str = frame.to_csv(index=False, lineterminator="\n")
        return text
    return json.dumps([plain_row(row) for row in frame.to_dict("records")], indent=1) + "\n"


def plain_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row for JSON: NaN and NA become None."""
    from prmcal.db.text.readable import missing  # loads SQLAlchemy, which `prmcal list` does not need

    return {name: None if missing(value) else value for name, value in row.items()}


def hidden_note(hidden: Sequence[Column], *others: str) -> str:
    """Say which columns were left out and how to see them.

    Parameters
    ----------
    hidden : sequence of Column
    *others : str
        Options that show them, besides ``--wide``. ``{keys}`` stands for the keys of the columns.
    """
    names = ", ".join(each.title for each in hidden)
    keys = ",".join(each.key for each in hidden if each.key)
    options = " or ".join(["--wide", *(each.format(keys=keys) for each in others)])
    return f"Hidden at this width: {names}. To see them: {options}."


def time_left(work: Work) -> str:
    """Return the worker time that one kind of job still needs, in words."""
    if work.reused == work.shards:
        return "none"
    return "not known yet" if work.seconds is None else duration(work.seconds)
