"""Exports of a merged leaderboard: records of Every Eval Ever.

The validator of Every Eval Ever is not on every package index. Where it can be imported, it checks all files. What its
schema requires most is also checked without it.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from prmcal.db import catalog
from prmcal.db.run_folder import database_path, published_path
from prmcal.db.tables import Submission
from prmcal.db.writer import Writer
from prmcal.errors import PrmcalError, StorageError
from prmcal.harness.site.publishing import publish, without_licence
from tests import stored
from tests.db import factory
from tests.db.merged_factory import ADA, BOB, CLEO

FILE = re.compile(
    r"data/prmcal/[\w.-]+/[\w.-]+/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\.json"
)


@pytest.fixture(scope="module")
def merged(merged_board: Path) -> Path:
    return merged_board


@pytest.fixture(scope="module")
def exported(merged: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("exported")
    publish(merged, every_eval_ever=out / "eee")
    return out


def records(folder: Path) -> dict[str, dict[str, Any]]:
    """The records by the cell that they are about."""
    found = [json.loads(file.read_text()) for file in folder.rglob("*.json") if file.name != "prmcal.json"]
    return {each["source_metadata"]["additional_details"]["cell"]: each for each in found}


def test_every_finished_cell_has_a_record_with_its_numbers(merged: Path, exported: Path) -> None:
    found = records(exported / "eee")
    rows = catalog.cells(published_path(merged))
    assert set(found) == set(rows.loc[rows["status"] == "done", "cell_id"])
    board = catalog.leaderboard(published_path(merged)).set_index("cell_id")
    cell = "calibration/weak/qwen/temperature/nano-math"
    (brier,) = [
        each
        for each in found[cell]["evaluation_results"]
        if each["metric_config"]["metric_id"] == "prmcal.brier"
    ]
    details = brier["score_details"]
    assert details["score"] == board.loc[cell, "brier"]
    interval = details["uncertainty"]["confidence_interval"]
    assert (interval["lower"], interval["upper"]) == (
        board.loc[cell, "brier_low"],
        board.loc[cell, "brier_high"],
    )
    assert details["uncertainty"]["num_samples"] == board.loc[cell, "questions"]
    assert details["uncertainty"]["num_bootstrap_samples"] == factory.BOOTSTRAP["replicates"]
    about = found[cell]["source_metadata"]["additional_details"]
    assert (about["submissions"], about["tier"], about["verified_by"]) == (ADA, "scored again", "Grace")
    # Cleo submitted this cell too, without a signature.
    shared = found["calibration/strong/qwen/temperature/nano-math"]["source_metadata"]["additional_details"]
    assert set(shared["submissions"].split(", ")) == {ADA, CLEO}
    assert shared["signatures"] == f"{ADA} by SHA256:ada"


def test_the_model_is_the_prm_or_the_llm(exported: Path) -> None:
    found = records(exported / "eee")
    calibration = found["calibration/weak/qwen/temperature/nano-math"]["model_info"]
    assert (calibration["name"], calibration["additional_details"]["llm"]) == ("qwen", "weak")
    scaling = found["scaling/strong/nano-math/pass@1"]["model_info"]
    assert (scaling["name"], scaling["additional_details"]["strategy"]) == ("strong", "pass@1")


def test_records_keep_the_rules_of_the_schema(exported: Path) -> None:
    root = exported / "eee"
    files = [path for path in root.joinpath("data").rglob("*") if path.is_file()]
    assert all(FILE.fullmatch(path.relative_to(root).as_posix()) for path in files)
    found = records(root)
    assert len({each["evaluation_id"] for each in found.values()}) == len(found)
    for record in found.values():
        assert record["schema_version"] == "0.3.0"
        assert record["retrieved_timestamp"].isdigit()
        assert record["model_info"]["additional_details"].keys() >= {"deployment_type", "model_availability"}
        for result in record["evaluation_results"]:
            config, score = result["metric_config"], result["score_details"]["score"]
            assert float(config["min_score"]) <= score <= float(config["max_score"])
            assert math.isfinite(score)
            assert all(isinstance(each, str) for each in result["score_details"]["details"].values())


def test_the_validator_of_every_eval_ever_accepts_all_files(exported: Path) -> None:
    core = pytest.importorskip(
        "every_eval_ever.validator.validation_core", reason="Every Eval Ever is not installed"
    )
    root = exported / "eee"
    files = {
        path.relative_to(root).as_posix(): path for path in root.joinpath("data").rglob("*") if path.is_file()
    }
    for name, path in files.items():
        report = core.validate_file(
            path,
            repo_path=name,
            available_files=set(files),
            read_repo_file=lambda each: files[each].read_text(),
            run_semantic_checks=True,
        )
        assert report.valid, report.errors


def test_the_same_leaderboard_gives_the_same_bytes(merged: Path, exported: Path, tmp_path: Path) -> None:
    publish(merged, every_eval_ever=tmp_path / "eee")
    first, again = (
        {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        for root in (exported / "eee", tmp_path / "eee")
    )
    assert first == again


def test_submissions_without_a_licence_are_named(merged: Path, tmp_path: Path) -> None:
    assert without_licence(merged) == []
    directory = tmp_path / "merged"
    shutil.copytree(merged, directory)
    writer = Writer(database_path(directory))
    columns = [column.name for column in Submission.__table__.columns]
    rows = catalog.submissions(published_path(directory)).set_index("submission_id", drop=False)
    for owner, name in ((BOB, "Bob"), (CLEO, "\x1b[2J")):
        values = rows.loc[owner, columns].to_dict() | {"submitter": name, "licence": ""}
        stored.record(writer, [Submission(**values)])
    writer.publish()
    assert sorted(without_licence(directory)) == sorted([f"{BOB} (Bob)", f"{CLEO} (\\x1b[2J)"])


def test_what_cannot_be_published_is_refused_and_nothing_is_written(
    merged: Path, copied_run: Path, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    with pytest.raises(PrmcalError, match="Merge it first"):
        publish(copied_run, site)
    with pytest.raises(PrmcalError, match="nothing to write"):
        publish(merged)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(StorageError, match="do not belong to a folder of records, such as thesis"):
        publish(merged, site, tmp_path / "mine")
    assert not (tmp_path / "site").exists()
