"""What ``prmcal.load`` gives: the rewards of the run, the cell that the rule names, and clear refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import prmcal
from prmcal import CalibratedPRM
from prmcal.errors import DataError, PrmcalError, RunError
from prmcal.registry.plugins import prms
from prmcal.steps import split_steps
from tests.registry.calibrators.lora.test_lora_adapter import as_published
from tests.served_run import CELL, shared_run

AIME = "A long way. " * 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_run(tmp_path_factory)


@pytest.fixture(scope="module")
def loaded(folder: Path) -> CalibratedPRM:
    return prmcal.load(folder, CELL)


@pytest.mark.parametrize("calibrator", ["uncalibrated", "isotonic", "quantiles", "lora"])
def test_rewards_are_those_of_the_run(folder: Path, calibrator: str) -> None:
    run = prmcal.open_run(folder)
    cell = f"calibration/nano-weak/nano-prm/{calibrator}/nano-math"
    row = run.trajectories(cell, limit=1).iloc[0]
    known = run.prefixes(cell, row["question_id"])
    known = known[known["trajectory"] == row["trajectory"]]
    found = prmcal.load(folder, cell).score(row["question"], split_steps(row["text"]))
    for column, level in enumerate(found.levels):
        own = known[known["level"] == level].sort_values("step")
        quantiles = [each[column] for each in found.quantiles if each is not None]
        np.testing.assert_allclose(quantiles, own["calibrated_reward"], atol=2e-3)
        np.testing.assert_allclose(np.array(found.uncalibrated, float), own["reward"], atol=1e-4)
    assert found.tokens > 0
    assert found.terminal[0] is False


def test_without_a_cell_the_stated_rule_chooses(folder: Path) -> None:
    chosen = prmcal.load(folder)
    ranking = list(prmcal.open_run(folder).ranking()["calibrator"])
    first = ranking[0]
    assert (chosen.llm, chosen.prm, chosen.calibrator) == ("nano-weak", "nano-prm", first)
    assert "right most often" in chosen.chosen_by
    assert prmcal.load(folder, calibrator="isotonic").calibrator == "isotonic"


def test_a_cell_of_the_scaling_leaderboard_brings_its_strategy(folder: Path) -> None:
    cells = prmcal.open_run(folder).cells
    row = cells[(cells["strategy"] == "best-of-n + IAS") & (cells["calibrator"] == "quantiles")].iloc[0]
    defaults = prmcal.load(folder, int(row["number"])).defaults
    assert (defaults.strategy.name, defaults.target, defaults.level) == ("best-of-n + IAS", 0.99, 0.1)
    assert defaults.max_samples == 4


def test_ias_asks_for_the_samples_of_proposition_1(loaded: CalibratedPRM) -> None:
    question = "Begin at 67, keeping two digits. a) subtract 4, b) add 1."
    quantiles = loaded.score(question).quantiles[0]
    assert quantiles is not None
    expected = np.ceil(np.log(0.01) / np.log1p(-quantiles[loaded.levels.index(0.1)]))
    assert loaded.samples(question, target=0.99, level=0.1) == expected
    highest = loaded.samples(question, target=0.5, level=0.9)
    assert highest == loaded.samples(question, target=0.5, level=0.3 * 3) <= expected


def test_a_saved_folder_gives_the_same_rewards_and_has_no_text_of_the_questions(
    folder: Path, loaded: CalibratedPRM, tmp_path: Path
) -> None:
    saved = loaded.save(tmp_path / "mine")
    again = prmcal.load(saved)
    item = ("Begin at 67. a) subtract 4.", ("a) 67-4=63",))
    assert again.score(*item) == loaded.score(*item)
    assert again.solve(item[0], max_samples=3).answer == loaded.solve(item[0], max_samples=3).answer
    assert again.solve(item[0], strategy="posterior vote", target=0.9).error == ""
    whole = b"".join(path.read_bytes() for path in saved.rglob("*") if path.is_file())
    assert b"a) " not in whole and str(folder).encode() not in whole
    with pytest.raises(PrmcalError, match="already exists"):
        loaded.save(saved)
    (saved / "calibrated_prm.json").write_text("{")
    with pytest.raises(DataError, match="Save it again"):
        prmcal.load(saved)


def test_an_exported_checkpoint_gives_the_quantiles_of_its_calibrator(folder: Path, tmp_path: Path) -> None:
    from prmcal.harness.cli.files import export_prm

    cell = "calibration/nano-weak/nano-prm/lora/nano-math"
    export_prm(cell, tmp_path / "checkpoint", 0.5, folder)
    exported = prmcal.load(tmp_path / "checkpoint")
    item = ("Begin at 67. a) subtract 4.", ("a) 67-4=63",))
    known = prmcal.load(folder, cell).score(*item)
    found = exported.score(*item)
    assert found.levels == known.levels == (0.1, 0.5, 0.9)
    np.testing.assert_allclose(np.array(found.quantiles, float), np.array(known.quantiles, float), atol=1e-3)
    assert found.uncalibrated == (None, None)
    with pytest.raises(PrmcalError, match="without an LLM"):
        exported.solve(item[0])
    with_llm = prmcal.load(tmp_path / "checkpoint", llm="nano:weak")
    solution = with_llm.solve(item[0], max_samples=2)
    assert solution.basis == "reward" and solution.spent.samples >= 1
    assert "not known" in solution.familiarity.message


def test_questions_of_another_kind_are_told_as_such(loaded: CalibratedPRM) -> None:
    assert loaded.familiarity("Begin at 67, keeping two digits. a) subtract 4, b) add 1.").familiar
    told = loaded.familiarity(AIME)
    assert not told.familiar
    assert "unlike the calibration questions" in told.message and "characters" in told.message


def test_refusals_say_what_to_do(folder: Path, tmp_path: Path) -> None:
    for source, cell, said in (
        (tmp_path / "absent", None, "prmcal run GRID"),
        (tmp_path, None, "has no run"),
        (folder, "#9999", "no cell"),
        (folder, "scaling/nano-weak/nano-math/pass@1", "has no calibrator"),
    ):
        with pytest.raises(PrmcalError, match=said):
            prmcal.load(source, cell)
    with pytest.raises(RunError, match=r"no calibrator 'platt'\. It has: uncalibrated"):
        prmcal.load(folder, calibrator="platt")
    (tmp_path / "config.json").write_text(json.dumps({"levels": []}))
    with pytest.raises(PrmcalError, match="without quantiles"):
        prmcal.load(tmp_path)


def test_an_adapter_of_the_papers_code_gives_its_quantiles_beside_the_prms_own_rewards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_published("nano:prm", tmp_path / "adapter")
    loaded = prmcal.load(tmp_path / "adapter", prm="nano:prm", llm="nano:weak")
    question, steps = "Begin at 67. a) subtract 4.", ("a) 67-4=63",)
    found = loaded.score(question, steps)
    (own,) = prms.create("qwen", checkpoint="nano:prm").score(question, [steps])
    np.testing.assert_allclose(np.array(found.uncalibrated, float), own.reward, atol=5e-2)
    quantiles = np.array(found.quantiles, float)
    assert found.levels == (0.1, 0.5, 0.9) and (np.diff(quantiles, axis=1) >= 0).all()
    assert np.ptp(quantiles) > 0
    solution = loaded.solve(question, max_samples=2)
    assert solution.basis == "reward" and "best-of-n + IAS" in solution.reason
    with pytest.raises(PrmcalError, match="tuned with the calibration questions"):
        loaded.solve(question, strategy="posterior vote")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(RunError, match="cannot be downloaded"):
        prmcal.load("someone/no-such-adapter")
