"""The tier of a cell is the highest that it passed in a verification of one of its submissions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from prmcal.db.catalog import cells, submissions
from prmcal.db.metrics import Tier
from prmcal.db.run_folder import published_path
from prmcal.harness.share.bundle import About
from prmcal.harness.share.merge import merge
from prmcal.harness.share.submissions import Check, Verification, write_verification
from prmcal.harness.share.writing import write_bundle

FAILING = "calibration/weak/verifier/isotonic/long"


def _record(path: Path, submission: str, tier: Tier, *checks: Check, by: str = "Grace") -> Path:
    passed = all(check.passed for check in checks)
    found = Verification(submission, tier, passed, by, "2026-11-02T10:00:00+00:00", "0.2.0", 7, checks)
    write_verification(path, found)
    return path


def test_tiers_of_cells(parts: Mapping[str, Path], tmp_path: Path) -> None:
    bundle = tmp_path / "ada.bundle"
    submission = write_bundle(
        parts["dataset"], None, bundle, About("Ada", "CC-BY-4.0")
    ).submission.submission_id
    fine = Check("consistent", "metrics", True, 10, "All values are equal.")
    wrong = Check("graded again", "grades", False, 10, "2 grades differ.", (FAILING,))
    unnamed = Check("consistent", "keys", False, 10, "A key is wrong.")
    records = [
        _record(tmp_path / "1.json", submission, "graded again", fine, wrong),
        _record(tmp_path / "2.json", submission, "reproduced", unnamed, by="Mallory"),
        _record(tmp_path / "3.json", "0123456789ab", "reproduced", fine),
    ]
    merge(tmp_path / "merged", [bundle, *records])
    # Verifications travel with a merged leaderboard.
    merge(tmp_path / "out", [tmp_path / "merged"])
    summary = merge(tmp_path / "out", [parts["llm"], records[0]])
    assert summary.verifications == 0
    found = cells(published_path(tmp_path / "out")).set_index("cell_id")
    assert found.loc[FAILING, "tier"] == "consistent"
    passing = found.loc["calibration/strong/verifier/isotonic/long"]
    assert (passing["tier"], passing["verified_by"]) == ("graded again", "Grace")
    assert found[found["dataset"] != "long"]["tier"].isna().all()
    assert len(submissions(published_path(tmp_path / "out"))) == 2
