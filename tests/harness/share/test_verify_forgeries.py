"""Each forgery is found by the first tier that can find it, and by no tier before."""

from __future__ import annotations

from pathlib import Path

import pytest

from prmcal.db.metrics import TIERS
from prmcal.harness.share.submissions import Verification
from prmcal.harness.verify.again import Asked
from prmcal.harness.verify.subject import opened
from prmcal.harness.verify.tiers import verified
from tests.harness.share.forgeries import FORGERIES, Forgery
from tests.harness.share.verified_run import bundle_of, sealed, verified_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return verified_run(tmp_path_factory)


def outcome(folder: Path, forgery: Forgery | None, original: Path) -> Verification:
    with opened(sealed(folder)) as subject:
        return verified(
            subject,
            TIERS[-1] if forgery is None else forgery.tier,
            Asked(share=0.1, questions=10, all_fits=True),
            seed=7,
        )


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda each: each.name)
def test_a_forgery_is_found_by_the_first_tier_that_can(forgery: Forgery, run: Path, tmp_path: Path) -> None:
    folder = bundle_of(run, tmp_path / "forged")
    forgery.forge(folder)
    found = outcome(folder, forgery, run)
    failed = [check.check for check in found.checks if not check.passed]
    assert found.tier == forgery.tier, [check.message for check in found.checks if not check.passed]
    assert forgery.check in failed, [check.message for check in found.checks if not check.passed]
    assert any(check.cells for check in found.checks if not check.passed)


def test_the_honest_bundle_passes_all_tiers(run: Path, tmp_path: Path) -> None:
    found = outcome(bundle_of(run, tmp_path / "honest"), None, run)
    assert found.passed, [check for check in found.checks if not check.passed]
    assert found.tier == "reproduced"
