"""A killed fit of `quantile-lora` resumes from its checkpoint and ends with the same bytes."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prmcal import FitSupport, Prefix, ScoredPrefixes
from prmcal.registry.plugins import calibrators, prms
from tests import forked

ARGUMENTS = {"layers": (1,), "epochs": 3, "batch_size": 3, "learning_rate": 0.01}
QUESTIONS = 24

Saved = dict[str, bytes]


def fit(model: Path, checkpoints: Path | None, report: Callable[[str], None]) -> Any:
    """A fit of one or two seconds: 72 steps, with a checkpoint after every third step."""
    prm: Any = prms.create("qwen", checkpoint=str(model), device="cpu")
    questions = [f"Start with {number}. a) add 15." for number in range(QUESTIONS)]
    prefixes = [Prefix(text, steps) for text in questions for steps in ((), ("a) 37+15=52",), ("a) 37+15=52", "So 52"))]
    calibrator = calibrators.create("quantile-lora", **ARGUMENTS)
    calibrator.support = FitSupport(checkpoints, report)
    k = np.random.default_rng(0).integers(0, 9, len(prefixes))
    features = ScoredPrefixes(prm, tuple(prefixes), np.zeros(len(prefixes)))
    return calibrator.fit(features, k, np.full(len(prefixes), 8))


def _fit_and_save(model: Path, folder: Path) -> None:
    fit(model, folder, lambda line: None).save(folder / "never")


def saved(calibrator: Any, folder: Path) -> Saved:
    calibrator.save(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def whole(checkpoints: Path) -> list[Path]:
    found = [path.parent for path in checkpoints.glob("checkpoint-*/whole.json")]
    return sorted(found, key=step_of)


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


@pytest.fixture(scope="module")
def uninterrupted(reward_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Saved:
    return saved(fit(reward_folder, None, print), tmp_path_factory.mktemp("fit"))


@pytest.fixture(scope="module")
def killed(reward_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoints of a fit whose process was killed in its second epoch."""
    folder = tmp_path_factory.mktemp("killed")
    process = forked._CONTEXT.Process(target=_fit_and_save, args=(reward_folder, folder))
    process.start()
    deadline = time.monotonic() + 600
    while not any(step_of(path) >= 30 for path in whole(folder)):
        assert process.is_alive(), "the fit ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert not (folder / "never").exists()
    return folder


def test_a_killed_fit_ends_with_the_bytes_of_an_uninterrupted_one(
    killed: Path,
    uninterrupted: Saved,
    reward_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from prmcal.registry.calibrators.lora.training import TreeTrainer

    folder = Path(shutil.copytree(killed, tmp_path / "checkpoints"))
    done = step_of(whole(folder)[-1])
    steps: list[int] = []
    one_step = TreeTrainer.training_step

    def counted(self: TreeTrainer, *arguments: Any) -> Any:
        steps.append(self.state.global_step)
        return one_step(self, *arguments)

    monkeypatch.setattr(TreeTrainer, "training_step", counted)
    resumed = fit(reward_folder, folder, print)
    assert saved(resumed, tmp_path / "fit") == uninterrupted
    assert done >= 30
    assert steps == list(range(done, 72))


@pytest.mark.parametrize("damage", ["half-written", "changed"])
def test_damaged_checkpoints_are_not_gone_on_from(
    damage: str, killed: Path, uninterrupted: Saved, reward_folder: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(killed, tmp_path / "checkpoints"))
    for checkpoint in whole(folder) if damage == "changed" else whole(folder)[-1:]:
        if damage == "half-written":
            (checkpoint / "whole.json").unlink()
            (checkpoint / "optimizer.pt").unlink()
        else:
            path = checkpoint / "adapter_model.safetensors"
            path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert saved(fit(reward_folder, folder, print), tmp_path / "fit") == uninterrupted


def test_checkpoints_of_another_fit_are_not_gone_on_from(
    killed: Path, reward_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(killed, tmp_path / "checkpoints"))
    monkeypatch.setitem(ARGUMENTS, "epochs", 1)
    there, nowhere = (fit(reward_folder, place, print) for place in (folder, None))
    assert saved(there, tmp_path / "one") == saved(nowhere, tmp_path / "two")
