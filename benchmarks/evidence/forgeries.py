"""Which tier of `prmcal verify` finds which forgery, tried on a small run of the nano models.

    python -m benchmarks.evidence.forgeries

It writes docs/nano/forgeries.csv, with a line for each forgery: the first tier that finds it, and the check that does.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pandas as pd

import prmcal
from prmcal.db.tiers import TIERS
from prmcal.harness.verifying.record import Verification
from prmcal.harness.verifying.subject import opened
from prmcal.harness.verifying.tiers.costs import Asked
from prmcal.harness.verifying.tiers.running import Supplied, Told, verified
from tests.harness.verifying.forgeries import FORGERIES, Forgery
from tests.harness.verifying.verified_run import GRID, bundle_of, sealed

__all__ = ["found_by", "table"]

_OUT = Path(__file__).parents[2] / "docs" / "nano" / "forgeries.csv"


def found_by(forgery: Forgery, run: Path, folder: Path) -> Verification:
    """Forge a bundle of a run in a new folder, and verify it until a tier finds something."""
    forged = bundle_of(run, folder)
    forgery.forge(forged)
    supplied = Supplied(against=(run,) if forgery.needs_original else ())
    with opened(sealed(forged)) as subject:
        return verified(subject, TIERS[-1], Asked(share=0.1, questions=10), supplied, Told(), seed=7)


def table(run: Path, scratch: Path) -> pd.DataFrame:
    """Return the first tier and the check that find each forgery."""
    rows = []
    for number, forgery in enumerate(FORGERIES):
        found = found_by(forgery, run, scratch / f"{number}")
        failed = [check.check for check in found.checks if not check.passed]
        first = "no tier" if found.passed else found.tier
        check = forgery.check if forgery.check in failed else ", ".join(failed)
        beside = " (beside the original, with --against)" if forgery.needs_original else ""
        rows.append(
            {"forgery": forgery.name, "first tier that finds it": first, "by the check": f"{check}{beside}"}
        )
    return pd.DataFrame(rows)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        prmcal.run(GRID, Path(folder) / "run", workers=1)
        table(Path(folder) / "run", Path(folder)).to_csv(_OUT, index=False, lineterminator="\n")
