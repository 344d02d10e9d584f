"""`prmcal verify` as a user runs it: the answer first, a record, exit codes, and clear refusals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from prmcal.harness.cli.app import ExitCode
from prmcal.harness.jobs.parameters import FitParameters
from prmcal.harness.share.bundle import SUBMISSION_FILE, About
from prmcal.harness.share.submissions import read_verification
from prmcal.harness.share.writing import write_bundle
from prmcal.harness.verify.subject import Subject, check_plan
from tests.conftest import Prmcal
from tests.harness.share.forgeries import better_metrics
from tests.harness.share.verified_run import bundle_of, sealed, verified_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return verified_run(tmp_path_factory)


@pytest.fixture(scope="module")
def bundle(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "results.prmcal"
    write_bundle(run, None, path, About("A. Tester", "CC-BY-4.0"))
    return path


def test_a_bundle_without_texts_passes_the_first_tier(bundle: Path, tmp_path: Path, prmcal: Prmcal) -> None:
    record = tmp_path / "record.json"
    shown = prmcal("verify", bundle, "--by", "B. Verifier", "--out", record, "--workers", 2)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    found = read_verification(record)
    assert shown.stdout.startswith(f"The submission {found.submission} passed the tier 'consistent'")
    assert "runs no model" in shown.stderr  # The cost comes before the work.
    assert all(len(line) <= 80 for line in shown.stdout.splitlines() if "Record: " not in line)
    assert (found.passed, found.tier, found.verified_by) == (True, "consistent", "B. Verifier")


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGTERM, ExitCode.TERMINATED),
        (signal.SIGHUP, ExitCode.HUNG_UP),
        (signal.SIGINT, ExitCode.INTERRUPTED),
    ],
)
def test_a_signal_leaves_no_temporary_files(
    bundle: Path, tmp_path: Path, number: signal.Signals, code: ExitCode
) -> None:
    for _ in range(10):  # It may end before the signal arrives.
        process = subprocess.Popen(
            [sys.executable, "-m", "prmcal", "verify", str(bundle), "--workers", "2"],
            env={**os.environ, "TMPDIR": str(tmp_path)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        while process.poll() is None and not list(tmp_path.glob("prmcal-verify-*/*")):
            time.sleep(0.01)
        process.send_signal(number)
        errors = process.communicate(timeout=600)[1]
        assert "Traceback" not in errors
        assert not list(tmp_path.iterdir())
        if process.returncode != ExitCode.DONE:
            break
    assert process.returncode == code, errors


def test_texts_can_be_supplied(run: Path, bundle: Path, tmp_path: Path, prmcal: Prmcal) -> None:
    alone = prmcal("verify", bundle, "--tier", "graded", "--workers", 1, "--out", tmp_path / "alone.json")
    assert alone.returncode == 4
    assert "did NOT pass the tier 'graded again'" in alone.stdout.splitlines()[0]
    assert "Give them with --texts-from" in " ".join(alone.stdout.split())
    assert any(each.cells for each in read_verification(tmp_path / "alone.json").checks if not each.passed)
    helped = prmcal("verify", bundle, "--tier", "graded", "--workers", 1, "--texts-from", run)
    assert helped.returncode == 0, helped.stdout


def test_a_forged_bundle_fails_with_its_cells(run: Path, tmp_path: Path, prmcal: Prmcal) -> None:
    folder = bundle_of(run, tmp_path / "forged")
    better_metrics(folder)
    altered = prmcal("verify", folder, "--workers", 1)
    assert altered.returncode == 2
    assert "has other bytes than its list says" in " ".join(altered.stderr.split())
    shown = prmcal("verify", sealed(folder), "--workers", 1)
    assert shown.returncode == 4
    first = shown.stdout.splitlines()
    assert "did NOT pass the tier 'consistent'" in first[0]
    assert first[2].startswith("results computed again: calibration metrics of nano-weak")
    assert "calibration/nano-weak/nano-prm/uncalibrated/nano-math" in shown.stdout


def test_a_calibrator_that_was_fitted_to_test_questions_is_found(run: Path) -> None:
    subject = Subject(run)
    tested, fit = subject.plan.cells[0].labels, subject.plan.jobs_of(FitParameters)[0]
    labels = replace(fit.labels, dataset=tested.dataset, split=tested.split)
    jobs = tuple(replace(job, labels=labels) if job is fit else job for job in subject.plan.jobs)
    for plan, passes in ((subject.plan, True), (replace(subject.plan, jobs=jobs), False)):
        subject.plan = plan
        (found,) = (each for each in check_plan(subject) if each.check == "test and calibration questions")
        assert found.passed == passes
        assert passes or set(found.cells) >= {cell.cell_id for cell in plan.cells if cell.labels == tested}


def test_a_strategy_of_another_version_is_not_checked(run: Path, tmp_path: Path, prmcal: Prmcal) -> None:
    folder = bundle_of(run, tmp_path / "later")
    plan = json.loads((folder / "plan.json").read_text())
    for job in plan["jobs"]:
        if job["kind"] == "calibration_metrics":
            job["version"] += 1
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / SUBMISSION_FILE).unlink()  # It is the folder of a run now, whose files nobody has listed.
    shown = prmcal("verify", folder, "--workers", 1)
    assert shown.returncode == 4
    assert "not checked" in shown.stdout
    assert "was computed by version" in " ".join(shown.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["nowhere.prmcal"], "'nowhere.prmcal' does not exist"),
        (["BUNDLE", "--tier", "believed"], "--tier must be one of consistent, graded, scored, reproduced"),
        (["BUNDLE", "--out", "no/such/record.json"], "does not exist"),
        (["BUNDLE", "--out", "."], "is a directory"),
        (["BUNDLE", "--out", "BUNDLE"], "is what is verified, so the record cannot replace it"),
        (["BUNDLE", "--texts-from", "nowhere"], "There is no bundle or folder nowhere for --texts-from"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    arguments: list[str], problem: str, bundle: Path, prmcal: Prmcal
) -> None:
    shown = prmcal("verify", *[str(bundle) if each == "BUNDLE" else each for each in arguments])
    assert shown.returncode == 2
    assert problem in shown.stderr
    assert "Traceback" not in shown.stderr


def test_a_bundle_that_was_cut_off_is_refused(bundle: Path, tmp_path: Path, prmcal: Prmcal) -> None:
    cut = tmp_path / "cut.prmcal"
    cut.write_bytes(bundle.read_bytes()[:-100])
    shown = prmcal("verify", cut)
    assert shown.returncode == 2
    assert "Traceback" not in shown.stderr
