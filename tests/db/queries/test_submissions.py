"""Submissions in the database of a merged leaderboard, and their absence in that of a run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from prmcal.db import catalog
from prmcal.db.metrics import TIERS
from prmcal.db.queries.runs import PROVENANCE
from prmcal.db.run_folder import published_path
from prmcal.db.text.board import web_board
from prmcal.db.text.formats import renewal, verified_text
from prmcal.db.text.overview import measured, ranking_board
from tests.db import merged_factory
from tests.db.merged_factory import ADA, BOB, CLEO, OUTDATED, OUTDATED_CELL


@pytest.fixture(scope="module")
def board(merged: Path) -> Path:
    return published_path(merged)


def test_only_a_merged_leaderboard_has_columns_of_provenance(published: Path, board: Path) -> None:
    assert not catalog.is_merged(published)
    of_run = catalog.leaderboard(published)
    assert not set(PROVENANCE) & set(of_run)
    merged = catalog.leaderboard(board)
    assert tuple(merged.columns[-len(PROVENANCE) :]) == PROVENANCE
    shared = merged[merged["llm"] != merged_factory.SEED_2].drop(columns=list(PROVENANCE))
    names = [name for name in of_run if name != "number"]  # the replicate moves the numbers of later cells
    pd.testing.assert_frame_equal(shared[names].reset_index(drop=True), of_run[names])


def test_a_cell_says_who_sent_and_who_verified_it(board: Path) -> None:
    rows = catalog.leaderboard(board).set_index("cell_id")
    outdated = rows.loc[OUTDATED_CELL]
    assert (outdated["outdated"], outdated["submissions"]) == (OUTDATED, CLEO)
    assert pd.isna(outdated["tier"])
    shared = rows.loc["calibration/strong/qwen/temperature/nano-math"]
    assert sorted(shared["submissions"].split()) == sorted([ADA, CLEO])
    assert (shared["tier"], shared["verified_by"]) == ("scored again", "Grace")
    assert shared["verified_at"] == "2026-03-04T05:06:07Z"
    assert set(rows.loc[rows["llm"] == merged_factory.SEED_2, "conditions"]) == {"seed 2"}


def test_the_overview_tells_what_is_outdated(board: Path) -> None:
    told = measured(catalog.overview(board))
    assert told.startswith("3 calibrators at 5 places: 3 LLMs and 1 PRM on 2 data sets")
    assert "Outdated, with versions behind them that have changed since: 1 cell." in told
    only = catalog.overview(board, llm=["strong"], dataset=["nano-aime"])
    assert [(each.calibrator, each.outdated) for each in only.ranking] == [
        ("temperature", True),
        ("uncalibrated", False),
    ]
    assert ranking_board(only).rows[0][1] == "temperature, outdated"


def test_rows_of_a_failed_check_say_so(board: Path, merged: Path, tmp_path: Path) -> None:
    rows = catalog.leaderboard(board)
    failed = dict(zip(rows["llm"], rows["failed_verifications"], strict=True))
    assert failed == {"weak": 0, "strong": 0, merged_factory.SEED_2: 1}  # The failed check names no cells.
    table = web_board(rows, "calibration", catalog.metrics(board))
    (verified,) = (column.values for column in table.columns if column.key == "tier")
    replicate = rows["llm"].tolist().index(merged_factory.SEED_2)
    assert verified[replicate] == "not verified; 1 verification failed"

    shutil.copytree(merged, tmp_path, dirs_exist_ok=True)
    named = "calibration/weak/qwen/temperature/nano-math"
    with duckdb.connect(str(published_path(tmp_path))) as connection:
        checks = {"checks": [{"passed": True, "cells": []}, {"passed": False, "cells": [named]}]}
        connection.execute("UPDATE verifications SET checks = ? WHERE NOT passed", [json.dumps(checks)])
    cells = catalog.cell_provenance(published_path(tmp_path)).set_index("cell_id")
    failed_of_bob = cells[cells["submissions"] == BOB]["failed_verifications"]
    assert len(failed_of_bob) == 2 and failed_of_bob.sum() == 1
    assert "temperature" in failed_of_bob.idxmax()


def test_the_filter_by_tier_keeps_that_tier_and_those_above_it(board: Path) -> None:
    everything = catalog.leaderboard(board)
    verified = set(everything.loc[everything["tier"].notna(), "cell_id"])
    for tier in TIERS:
        kept = catalog.leaderboard(board, tier=tier)
        expected = verified if TIERS.index(tier) <= TIERS.index("scored again") else set()
        assert set(kept["cell_id"]) == expected
    assert catalog.overview(board, tier="reproduced").counts["done"] == 0
    filtered = catalog.overview(board, tier="graded again")
    assert merged_factory.SEED_2 not in set(filtered.cells["llm"])
    assert not catalog.league(board, tier="reproduced").rows
    assert catalog.costs(board, tier="reproduced").empty


def test_a_submission_has_the_highest_tier_that_passed_and_the_number_that_failed(board: Path) -> None:
    found = catalog.submissions(board).set_index("submission_id")
    assert found.loc[ADA, ["submitter", "tier", "verified_by", "failed"]].tolist() == [
        "Ada",
        "scored again",
        "Grace",
        0,
    ]
    assert found.loc[BOB, ["submitter", "tier", "failed"]].tolist() == ["Bob", None, 1]
    assert found.loc[CLEO, "verified_at"] is None
    assert (catalog.cell_provenance(board)["submissions"] == BOB).sum() == found.loc[BOB, "cells"]
    (check,) = catalog.verifications(board).set_index("submission_id").at[BOB, "checks"]["checks"]
    assert not check["passed"]


def test_a_board_of_pages_has_tiers_and_what_is_not_current_of_merged_rows_only(
    published: Path, board: Path
) -> None:
    described = catalog.metrics(board)
    plain = web_board(catalog.leaderboard(published), "calibration", described)
    assert not {"tier", "outdated"} & set(plain.keys)
    table = web_board(catalog.leaderboard(board), "calibration", described)
    columns = {column.key: column.values for column in table.columns}
    place = table.cells.index(OUTDATED_CELL)
    assert columns["outdated"][place] == OUTDATED
    assert columns["tier"][place] == "not verified"
    assert columns["tier"][0] == "scored again by Grace, 2026-03-04"


def test_a_renewal_names_plugins_as_the_grid_does() -> None:
    cell = {"llm": "my llm", "dataset": "odd (name)", "strategy": "best-of-n + IAS"}
    assert renewal(cell) == (
        "prmcal run GRID.yaml --out DIR --only 'llm=my llm' --only 'dataset=odd (name)' "
        "--only 'strategy=best-of-n + IAS'"
    )
    assert verified_text(None) == "not verified"
    assert verified_text("consistent", "Ada", failed=2) == "consistent by Ada; 2 verifications failed"
