"""What ``prmcal.load`` gives: the rewards of the run, the cell that the rule names, and clear refusals."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import prmcal
from prmcal import CalibratedPRM
from prmcal.errors import PrmcalError, RunError
from prmcal.steps import split_steps
from tests.served_run import CELL, GONE, NAN, shared_run


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


def test_a_prefix_that_is_too_long_has_no_reward(loaded: CalibratedPRM) -> None:
    found = loaded.score("1 + 1?", ["a) 1 + 1 = 2", "x" * 50_000])
    assert found.point[1] is not None
    for name in ("log_odds", "uncalibrated", "quantiles", "point"):
        assert asdict(found)[name][2] is None


def test_without_a_cell_the_stated_rule_chooses(folder: Path) -> None:
    chosen = prmcal.load(folder)
    first = next(iter(prmcal.open_run(folder).ranking()["calibrator"]))
    assert str(chosen) == f"nano-prm calibrated by {first}, for nano-weak ({chosen.name})"
    assert "right most often" in chosen.chosen_by
    assert prmcal.load(folder, calibrator="isotonic").scorer.calibrator_name == "isotonic"


def test_a_cell_of_the_scaling_leaderboard_brings_its_strategy(folder: Path) -> None:
    cells = prmcal.open_run(folder).cells
    row = cells[(cells["strategy"] == "best-of-n + IAS") & (cells["calibrator"] == "quantiles")].iloc[0]
    prm = prmcal.load(folder, int(row["number"]))
    assert (prm.strategy.name, prm.allowance.target, prm.level) == ("best-of-n + IAS", 0.99, 0.1)
    assert prm.allowance.samples == 4 and not prm.chosen_by
    plain = prmcal.load(folder, "scaling/nano-weak/nano-math/pass@1", calibrator="isotonic")
    assert (plain.strategy.name, plain.scorer.calibrator_name) == ("pass@1", "isotonic")


def test_refusals_say_what_to_do(folder: Path, tmp_path: Path) -> None:
    for source, cell, said in (
        (tmp_path / "absent", None, "prmcal run GRID"),
        (folder, "#9999", "no cell"),
    ):
        with pytest.raises(PrmcalError, match=said):
            prmcal.load(source, cell)
    with pytest.raises(RunError, match=r"no calibrator 'platt'\. It has: uncalibrated"):
        prmcal.load(folder, calibrator="platt")


@pytest.mark.parametrize(
    ("question", "steps", "said"),
    [
        ("  \n", (), "must be a text that is not empty"),
        (7, (), "must be a text that is not empty"),
        ("half of a pair \ud800", (), "surrogate"),
        ("1 + 1?", ("", "x"), "steps must be a list of texts"),
        ("1 + 1?", "a step", "steps must be a list of texts"),
        (f"Please {NAN}.", (), "NaN"),
        (f"Please {GONE}.", (), "'nano-prm' failed"),
    ],
)
def test_what_cannot_be_scored_is_told(loaded: CalibratedPRM, question: str, steps: tuple[str, ...], said: str) -> None:
    with pytest.raises(PrmcalError, match=said):
        loaded.score(question, steps)
    assert loaded.score("1 + 1?").point[0] is not None


def test_memory_is_given_back_and_models_come_again(folder: Path) -> None:
    with prmcal.load(folder, CELL) as prm:
        before = prm.score("1 + 1?")
        held = prm.scorer.loaded_prm
    assert prm.scorer.loaded_prm is not held
    assert prm.score("1 + 1?") == before
    prm.close()
