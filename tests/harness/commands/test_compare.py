"""``prmcal compare`` on a synthetic grid: stored and by hand, with artifacts and without, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
import yaml
from scipy.stats import ttest_rel

from prmcal.db import catalog
from prmcal.errors import ArtifactError, IncomparableCellsError, UnknownCellError
from prmcal.harness.cli.cells import render_comparison
from tests.conftest import PLUGINS, Prmcal
from tests.one_process import run_here

SHORT_SIGHTED = """
import numpy as np

from prmcal import PRM, PrefixScores, prm


@prm("short-sighted")
class ShortSighted(PRM):
    def score(self, question, trajectories):
        lost = int(question.split()[-2]) > 4
        return [self._score(len(steps) + 1, lost) for steps in trajectories]

    def _score(self, prefixes, lost):
        reward = np.where(lost, np.nan, np.full(prefixes, 0.6))
        return PrefixScores(np.log(reward / (1 - reward)).astype(np.float32), reward, np.isnan(reward), 7)
"""
RAW, FITTED = (f"calibration/weak/verifier/{name}/synthetic-questions" for name in ("uncalibrated", "isotonic"))
STRICT = RAW.replace("verifier", "strict")
FAILED = RAW.replace("uncalibrated", "broken")
PASS_AT_1 = "scaling/weak/synthetic-questions/pass@1"
BEST_OF_N = "scaling/weak/verifier/synthetic-questions/best-of-n"
IAS = "scaling/weak/verifier/isotonic/synthetic-questions/best-of-n+ias/C=0.9/beta=0.5"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run with three PRMs and a broken calibrator. Not to be written to."""
    folder = tmp_path_factory.mktemp("finished")
    short_sighted = folder / "short_sighted.py"
    short_sighted.write_text(SHORT_SIGHTED)
    grid = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text()) | {
        "llms": [{"name": "weak", "plugin": "synthetic-llm", "arguments": {"skill": 0.7}}],
        "prms": [
            {"name": "verifier", "plugin": "synthetic-prm"},
            {"name": "strict", "plugin": "synthetic-prm", "arguments": {"skill": 0.5}},
            {"name": "short", "plugin": "short-sighted"},
        ],
        "calibrators": ["uncalibrated", "isotonic", "broken"],
        "datasets": [
            {"name": "synthetic-questions", "questions": 40},
            {"name": "long", "plugin": "synthetic-questions", "arguments": {"longest": 12}, "questions": 5},
        ],
        "calibration": {"name": "synthetic-questions", "questions": 20, "trajectories": 2, "follow_ups": 4},
        "scaling": {"samples": 16, "targets": [0.9], "levels": [0.1]},
        "measurement": {"measured": 2, "follow_ups": 4, "replicates": 400},
        "shards": {"questions": 40, "trajectories": 16},
    }
    path, out = folder / "grid.yaml", folder / "out"
    path.write_text(yaml.safe_dump(grid))
    (group,) = run_here(path, out, short_sighted).failures  # that of the broken calibrator
    assert "no slope" in group.failure.reason
    return out


@pytest.fixture
def published_only(finished: Path, tmp_path: Path) -> Path:
    """A folder with the published database and no artifacts, to be written to."""
    for name in ("run.json", "leaderboard.duckdb"):
        shutil.copy(finished / name, tmp_path)
    return tmp_path


def compared(folder: Path, a: str, b: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(render_comparison(folder, a, b, "json"))
    return found | {"metrics": {each["metric"]: each for each in found["metrics"]}}


def alter(folder: Path, statement: str) -> None:
    with duckdb.connect(str(folder / "leaderboard.duckdb")) as connection:
        connection.execute(statement)


def test_the_command_says_which_differences_are_real(prmcal: Prmcal, finished: Path) -> None:
    done = prmcal("compare", RAW, FITTED, "--dir", finished, COLUMNS="100")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == [f"A  #1 {RAW}", f"B  #2 {FITTED}"]
    rows = catalog.leaderboard(finished / "leaderboard.duckdb").set_index("cell_id")
    assert "Paired over the same 40 questions." in lines
    # Without terminal prefixes, and with them.
    brier, _ = [line for line in lines if line.startswith("brier ")]
    difference = rows.loc[FITTED, "brier"] - rows.loc[RAW, "brier"]
    assert f" {difference:+.3f} [" in brier
    assert " yes " in brier and "A leaderboard corrects it over all pairs of cells (1)" in " ".join(lines)
    assert sum(": take " in line for line in lines) == 5
    narrow = prmcal("compare", RAW, FITTED, "--dir", finished, COLUMNS="80").stdout
    both = [f"{rows.loc[cell, 'brier']:.3f}" for cell in (RAW, FITTED)]
    assert next(line.split() for line in narrow.splitlines() if line.startswith("brier "))[1:3] == both
    one = prmcal("compare", RAW, FITTED, "--dir", finished, "--format", "csv")
    row = next(each for each in csv.DictReader(io.StringIO(one.stdout)) if each["metric"] == "ece")
    assert (row["pairs"], row["real"]) == ("1", "True")


def test_cells_that_compete_have_the_leaderboards_p_value_either_way_round(finished: Path) -> None:
    stored = catalog.comparisons(finished / "leaderboard.duckdb")
    forth, back = compared(finished, BEST_OF_N, IAS), compared(finished, IAS, BEST_OF_N)
    row = stored[(stored["metric"] == "accuracy") & (stored["cell_a"] == BEST_OF_N) & (stored["cell_b"] == IAS)]
    accuracy, turned = forth["metrics"]["accuracy"], back["metrics"]["accuracy"]
    assert accuracy["p_adjusted"] == turned["p_adjusted"] == row["p_adjusted"].item()
    assert accuracy["pairs"] == 3  # fixed best-of-n and IAS with two calibrators that work
    assert accuracy["difference"] == -turned["difference"] == -row["difference"].item()
    assert (accuracy["low"], accuracy["high"]) == (-turned["high"], -turned["low"])


def test_any_two_cells_of_a_data_set_are_compared_and_not_adjusted(finished: Path) -> None:
    found = compared(finished, PASS_AT_1, BEST_OF_N)
    tokens = {"generated_tokens", "prefill_tokens", "prm_tokens"}
    assert set(found["metrics"]) == {"accuracy", "budget_ratio", "samples", *tokens}
    accuracy = found["metrics"]["accuracy"]
    by_hand = []
    with duckdb.connect(str(finished / "leaderboard.duckdb"), read_only=True) as connection:
        for cell in (PASS_AT_1, BEST_OF_N):
            values = connection.execute(
                "SELECT value FROM question_results WHERE cell_id = ? AND metric = 'accuracy' ORDER BY question_id",
                [cell],
            ).fetchnumpy()["value"]
            by_hand.append(values)
    expected = ttest_rel(by_hand[1], by_hand[0])
    interval = expected.confidence_interval(0.95)
    assert accuracy["difference"] == pytest.approx(np.mean(by_hand[1] - by_hand[0]))
    assert [accuracy["low"], accuracy["high"]] == pytest.approx([interval.low, interval.high], abs=0.01)
    assert accuracy["p_adjusted"] is None and accuracy["pairs"] is None and accuracy["real"] is True
    text = " ".join(render_comparison(finished, PASS_AT_1, BEST_OF_N).split())
    assert "as one test of these two cells" in text and "corrects" not in text
    largest = found["differing_questions"][0]
    assert abs(largest["difference"]) == pytest.approx(np.abs(by_hand[0] - by_hand[1]).max())


def test_the_same_calibrator_on_two_prms_shares_its_prefixes(finished: Path) -> None:
    found = compared(finished, RAW, STRICT)
    rows = catalog.leaderboard(finished / "leaderboard.duckdb").set_index("cell_id")
    assert found["metrics"]["brier"]["difference"] == pytest.approx(rows.loc[STRICT, "brier"] - rows.loc[RAW, "brier"])
    signed = found["metrics"]["signed_error"]
    assert signed["a"] > 0 > signed["b"], "one overestimates, the other underestimates"
    assert signed["from_zero"] is True
    assert signed["difference"] == pytest.approx(abs(signed["b"]) - abs(signed["a"]))


def test_cells_that_lost_different_questions_are_refused_with_the_reason(finished: Path) -> None:
    other = RAW.replace("verifier", "short")
    with pytest.raises(IncomparableCellsError, match=r"different questions \(40 and 32, not all the same\)"):
        render_comparison(finished, RAW, other)


def test_without_artifacts_the_database_says_the_same(finished: Path, published_only: Path) -> None:
    assert compared(published_only, RAW, FITTED) == compared(finished, RAW, FITTED)
    with pytest.raises(ArtifactError, match=r"cannot be read: .* Run the grid again"):
        render_comparison(published_only, RAW, STRICT)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (RAW, RAW, "is given twice"),
        (RAW, FAILED, f"'{FAILED}' is failed and has no values: .*no slope"),
        (RAW, RAW.replace("synthetic-questions", "long"), "different data sets"),
        (RAW, PASS_AT_1, "different leaderboards"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_the_reason(finished: Path, a: str, b: str, message: str) -> None:
    with pytest.raises(IncomparableCellsError, match=message.replace("+", r"\+")):
        render_comparison(finished, a, b)


def test_an_unknown_cell_suggests_the_nearest(prmcal: Prmcal, finished: Path) -> None:
    refused = prmcal("compare", RAW, FITTED.replace("isotonic", "isotonik"), "--dir", finished)
    assert refused.returncode == 2
    assert refused.stderr.startswith("prmcal: error: There is no cell")
    assert re.search(rf"Did you mean #\d+ '{FITTED}'", refused.stderr)
    assert len(refused.stderr.splitlines()) == 1
    with pytest.raises(UnknownCellError):
        render_comparison(finished, "nonsense", RAW)


def test_a_pending_cell_is_refused(published_only: Path) -> None:
    alter(published_only, f"UPDATE cells SET status = 'pending' WHERE cell_id = '{RAW}'")
    with pytest.raises(IncomparableCellsError, match=r"is pending and has no values yet\. Finish the run first"):
        render_comparison(published_only, FITTED, RAW)


def test_foreign_text_cannot_steer_the_terminal(published_only: Path) -> None:
    alter(published_only, r"UPDATE questions SET text = 'a' || chr(27) || '[31m <b>|x|</b>' || chr(10) || 'red'")
    text = render_comparison(published_only, RAW, FITTED)
    assert "\x1b" not in text and r"a\x1b[31m <b>|x|</b> red" in text
