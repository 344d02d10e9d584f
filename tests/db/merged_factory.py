"""A small merged leaderboard: the run of `factory`, and a replicate of the weak LLM with another seed.

Ada submitted the first run, which Grace verified. Bob submitted the replicate, whose verification failed. Cleo
submitted one of the cells again, and a cell whose grader is no longer current; nobody verified it.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from prmcal.db.metrics import cell_id
from prmcal.db.reader import reading
from prmcal.db.run_folder import published_path
from prmcal.db.tables import (
    Cell,
    CellSubmission,
    HealthCheck,
    Plugin,
    Run,
    SeedSpread,
    Submission,
    Verification,
)
from prmcal.db.writer import Writer
from tests.db import factory

SEED_2 = "weak (seed 2)"
ADA, BOB, CLEO = "a1b2c3d4e5f6", "0f1e2d3c4b5a", "77c0ffee1234"
OUTDATED_CELL = cell_id("calibration", "strong", "nano-aime", prm="qwen", calibrator="temperature")
OUTDATED = "the grader of nano-aime (version 1, now 2)"
_REPLICATED = ("uncalibrated", "temperature")
_SOLUTIONS = {"dataset": "nano-math", "split": "test", "llm": "weak", "prm": "", "count": 0}
_VERIFIED_AT = datetime(2026, 3, 4, 5, 6, 7)


def build(directory: Path) -> Writer:
    """Write the database of the merged leaderboard, and publish it."""
    return extend(directory, factory.build(directory, publish=False))


def extend(directory: Path, writer: Writer) -> Writer:
    """Write what the leaderboard has beside the run of `factory`, which is there, and publish it."""
    factory.write_pool(writer, directory, SEED_2, "nano-math")
    for calibrator in _REPLICATED:
        factory.write_calibration(writer, directory, SEED_2, calibrator, "nano-math")
    writer.publish()
    with reading(published_path(directory)) as connection:
        cells = [dict(row) for row in connection.execute(sa.select(Cell.__table__)).mappings()]
        first_run = sa.select(Run.__table__).where(Run.run_id == "run-1")
        run = dict(connection.execute(first_run).mappings().one())
    identity = {"version": "1", "weights": "hash-of-weak"}
    with writer.transaction() as transaction:
        transaction.record(
            [
                Plugin(
                    kind="llm",
                    name=SEED_2,
                    plugin="weak",
                    identity=identity,
                    arguments={},
                    position=2,
                )
            ]
        )
        transaction.record(
            [HealthCheck(check="unread", total=8, severity="fine", examples="[]", **_SOLUTIONS)]
        )
        transaction.record([Run(**run | {"run_id": "run-2"}), Run(**run | {"run_id": "run-3"})])
        transaction.record([Cell(**row | _provenance(row)) for row in cells])
        transaction.record(
            [
                CellSubmission(cell_id=row["cell_id"], submission_id=each)
                for row in cells
                for each in _submissions(row)
                if row["status"] == "done"
            ]
        )
        transaction.record(
            [
                _submission(
                    ADA, "Ada", "run-1", "SHA256:ada", sum(ADA in _submissions(row) for row in cells) - 1
                ),
                _submission(BOB, "Bob", "run-2", None, len(_REPLICATED)),
                _submission(CLEO, "Cleo", "run-3", None, 2),
            ]
        )
        transaction.record(
            [
                _verification("1111aaaa2222", ADA, "scored again", passed=True),
                _verification("3333bbbb4444", BOB, "consistent", passed=False),
            ]
        )
        transaction.record([spread for calibrator in _REPLICATED for spread in _spreads(calibrator)])
    writer.publish()
    return writer


def _replicated_cell(llm: str, calibrator: str) -> str:
    return cell_id("calibration", llm, "nano-math", prm="qwen", calibrator=calibrator)


def _submissions(row: dict[str, Any]) -> list[str]:
    if row["llm"] == SEED_2:
        return [BOB]
    if row["cell_id"] == OUTDATED_CELL:
        return [CLEO]
    return [ADA, CLEO] if row["cell_id"] == _replicated_cell("strong", "temperature") else [ADA]


def _provenance(row: dict[str, Any]) -> dict[str, Any]:
    replicate = row["llm"] == SEED_2
    seeds = replicate or row["cell_id"] in {_replicated_cell("weak", each) for each in _REPLICATED}
    verified = ADA in _submissions(row) and row["status"] == "done"
    return {
        "base_id": row["cell_id"].replace(SEED_2, "weak") if seeds else None,
        "seed": 2 if replicate else 1,
        "conditions": "seed 2" if replicate else "",
        "measured_at": datetime(2026, 1, 2 + replicate, 3, 4, 5) if row["status"] == "done" else None,
        "outdated": OUTDATED if row["cell_id"] == OUTDATED_CELL else None,
        "tier": "scored again" if verified else None,
        "verified_by": "Grace" if verified else None,
        "verified_at": _VERIFIED_AT if verified else None,
    }


def _submission(name: str, submitter: str, run: str, signed_by: str | None, cells: int) -> Submission:
    return Submission(
        submission_id=name,
        submitter=submitter,
        licence="CC-BY-4.0",
        note="",
        signed_by=signed_by,
        run_id=run,
        cells=cells,
        texts=submitter == "Ada",
    )


def _verification(name: str, submission: str, tier: str, *, passed: bool) -> Verification:
    message = (
        "All values are what the artifacts give." if passed else "2 values are not what the artifacts give."
    )
    check = {
        "tier": "consistent",
        "check": "metrics",
        "passed": passed,
        "n": 20,
        "message": message,
        "cells": [],
    }
    return Verification(
        verification_id=name,
        submission_id=submission,
        tier=tier,
        passed=passed,
        verified_by="Grace",
        verified_at=_VERIFIED_AT,
        prmcal_version="0.1.0",
        checks={"seed": 5, "checks": [check]},
    )


def _spreads(calibrator: str) -> list[SeedSpread]:
    value = factory.metric_values("weak", calibrator, "nano-math")["brier"]
    return [
        SeedSpread(
            cell_id=_replicated_cell(llm, calibrator),
            metric="brier",
            seeds=2,
            mean=value - 0.025,
            standard_deviation=0.0354,
            lowest=value - 0.05,
            highest=value,
        )
        for llm in ("weak", SEED_2)
    ]
