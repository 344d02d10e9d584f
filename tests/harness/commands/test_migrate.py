from __future__ import annotations

import shutil
from pathlib import Path

from prmcal.db.connection import engine_for
from prmcal.db.run_folder import database_path, published_path
from tests.conftest import ROOT, Prmcal


def test_a_folder_of_an_earlier_version_is_read_and_then_migrated(prmcal: Prmcal, tmp_path: Path) -> None:
    with engine_for(published_path(tmp_path)).begin() as connection:
        connection.exec_driver_sql((ROOT / "tests" / "db" / "layout_5.sql").read_text())
    shutil.copyfile(published_path(tmp_path), database_path(tmp_path))
    before = published_path(tmp_path).read_bytes()
    read = prmcal("leaderboard", tmp_path, "--table", "calibration", "--format", "csv")
    assert read.returncode == 0
    assert published_path(tmp_path).read_bytes() == before
    migrated, again = prmcal("migrate", tmp_path), prmcal("migrate", tmp_path)
    assert "from layout 5 to 7" in migrated.stderr
    assert "has the current layout (7) already" in again.stderr
    assert prmcal("leaderboard", tmp_path, "--table", "calibration", "--format", "csv").stdout == read.stdout


def test_a_folder_without_results_says_so(prmcal: Prmcal, tmp_path: Path) -> None:
    found = prmcal("migrate", tmp_path)
    assert found.returncode == 2
    assert "No grid was run in" in found.stderr
