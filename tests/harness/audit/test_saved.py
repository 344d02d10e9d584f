"""The saved calibrator gives what the fitted one gives, and loads no large package."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from prmcal import load_calibrator
from prmcal.errors import DataError
from prmcal.harness.audit.audit import Audit, audit
from prmcal.harness.audit.estimates import CALIBRATORS, Rows, calibrated_rewards, fit_calibrator
from prmcal.harness.audit.saved import save
from prmcal.registry.reading.scales import Scale, ScaleName
from tests.conftest import ROOT, Prmcal
from tests.harness.audit import files


@pytest.mark.parametrize("name", ["uncalibrated", *CALIBRATORS])
@pytest.mark.parametrize("scale", ["probability", "logit"])
def test_it_gives_the_same_rewards(name: str, scale: ScaleName, tmp_path: Path, audited: Audit) -> None:
    rows = Rows(audited.prefixes)
    calibrator = fit_calibrator(name, rows)
    save(tmp_path, calibrator, Scale(scale), audited.scored.of_questions, "scores", ["a.jsonl"])
    loaded = load_calibrator(tmp_path)
    assert (loaded.calibrator.plugin_name, loaded.scale, loaded.field, loaded.files) == (
        name,
        scale,
        "scores",
        ("a.jsonl",),
    )
    scores = rows.reward if scale == "probability" else rows.logit
    np.testing.assert_allclose(loaded.predict(scores), calibrated_rewards(calibrator, rows), atol=1e-9)
    assert loaded.predict(scores.reshape(-1, 1)).shape == (len(scores), 1)
    assert np.isnan(loaded.predict([np.nan, 0.5])).tolist() == [True, False]
    assert np.isnan(loaded.predict(np.nan))


def written(folder: Path) -> Path:
    path = folder / "scored.jsonl"
    path.write_text("\n".join(map(json.dumps, files.lists_of_steps())))
    return path


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    return audit(written(tmp_path_factory.mktemp("audited")))


def test_it_loads_no_large_package(tmp_path: Path, audited: Audit) -> None:
    audited.save(tmp_path / "out")
    code = (
        "import sys, prmcal; prmcal.load_calibrator(sys.argv[1]).predict([0.2, 0.9]);"
        "heavy = {'torch', 'pandas', 'sklearn', 'pyarrow', 'duckdb'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "out")], check=True)


def test_what_is_no_calibrator_is_refused(tmp_path: Path, audited: Audit) -> None:
    with pytest.raises(DataError, match=r"There is no calibrator in .*prmcal audit FILE --out DIR"):
        load_calibrator(tmp_path)
    audited.save(tmp_path)
    with pytest.raises(ValueError, match="a probability must be in"):
        load_calibrator(tmp_path).predict([3.0])


@pytest.mark.parametrize(
    ("written", "message"),
    [(1, r"An older version of prmcal wrote .*prmcal audit FILE --out "), (4, "Update prmcal to read it")],
)
def test_a_calibrator_of_another_version_says_what_to_do(written: int, message: str, tmp_path: Path) -> None:
    card = {"format": written, "name": "platt", "scale": "logit", "parameters": {"map": "none"}}
    (tmp_path / "calibrator.json").write_text(json.dumps(card))
    with pytest.raises(DataError, match=message):
        load_calibrator(tmp_path)


def test_the_command_says_how_it_read_the_file_and_leaves_a_calibrator(tmp_path: Path, prmcal: Prmcal) -> None:
    written(tmp_path)
    shown = prmcal("audit", "scored.jsonl", "--out", "out", folder=tmp_path, COLUMNS="80").stdout
    lines = shown.splitlines()
    assert len(lines) <= 27  # 25 of the verdict, and where it was written
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("The scores are too high as chances of a right answer: mean")
    assert "question 'question', solution 'steps'" in " ".join(shown.split())
    found = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert found["signed_error"]["low"] > 0
    applied = prmcal("apply", "out", "scored.jsonl", folder=tmp_path)
    assert applied.returncode == 0, applied.stderr
    first = json.loads(applied.stdout.splitlines()[0])
    assert [len(each) for each in first["calibrated"]] == [len(each) for each in first["scores"]]
    # The file that ships has its scores in the solutions of a question.
    nested = prmcal("apply", "out", ROOT / "grids" / "scored.jsonl", folder=tmp_path)
    assert nested.returncode == 0, nested.stderr
    record = json.loads(nested.stdout.splitlines()[0])
    predict = load_calibrator(tmp_path / "out").predict
    assert [each["calibrated"] for each in record["solutions"]] == [
        predict(each["scores"]).tolist() for each in record["solutions"]
    ]
    bare = prmcal("apply", "out", ROOT / "grids" / "scored.jsonl", "--score", "no", folder=tmp_path)
    assert "line 1: no field has scores" in bare.stderr
    wrong = prmcal("audit", "scored.jsonl", "--score", "rewards", folder=tmp_path)
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("prmcal: error: scored.jsonl has no field 'rewards'.")


def test_an_alarm_says_that_questions_are_not_like_those_of_an_earlier_audit(tmp_path: Path, audited: Audit) -> None:
    audited.save(tmp_path / "out")
    same, other = (tmp_path / name for name in ("same.jsonl", "other.jsonl"))
    for path, shift in ((same, 0.8), (other, 6.0)):
        rows = [{**each, "correct": each["right"]} for each in files.solutions(seed=1, shift=shift)]
        path.write_text("\n".join(map(json.dumps, rows)))
    assert not audit(same, against=tmp_path / "out").scored.alarm
    found = audit(other, against=tmp_path / "out")
    alarm = "the reward of the first solution is higher"
    assert (
        alarm in found.scored.alarm and "outcome of the first solution minus its reward is lower" in found.scored.alarm
    )
    # It is said before any number, and the report has it among what to know first.
    assert str(found).index("An alarm by") < str(found).index("The scores are too high")
    assert "An alarm by" in found._repr_html_()
