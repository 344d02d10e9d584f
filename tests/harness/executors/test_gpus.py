"""Workers share the GPUs of a machine. The tests need no GPU: they set CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from prmcal.harness.execution.machine import default_workers, gpus_of_worker, visible_gpus
from tests.conftest import PLUGINS, Prmcal

VARIABLE = "CUDA_VISIBLE_DEVICES"
PLUGIN = """
import os
from pathlib import Path
from prmcal import llm
from prmcal.registry.plugins import load_plugin_file
from prmcal.registry.plugins import llms

load_plugin_file(Path("{synthetic}"))

@llm("telling")
class Telling(llms.get("synthetic-llm")):
    def __init__(self, skill=0.7, tensor_parallel=1):
        super().__init__(skill)
        self.tensor_parallel = tensor_parallel

    def generate(self, prefixes, n, sampling, seed):
        (Path("{folder}") / str(os.getpid())).write_text(os.environ["CUDA_VISIBLE_DEVICES"])
        return super().generate(prefixes, n, sampling, seed)
"""


@given(st.integers(1, 20), st.integers(1, 20))
def test_shares_are_even_and_use_every_gpu(count: int, workers: int) -> None:
    gpus = [f"GPU-{number}" for number in range(count)]
    shares = [gpus_of_worker(gpus, workers, place) for place in range(workers)]
    assert {gpu for share in shares for gpu in share} == set(gpus)
    sizes = [len(share) for share in shares]
    assert 1 <= min(sizes) <= max(sizes) <= min(sizes) + 1
    if workers <= count:
        assert sum(sizes) == count


@pytest.mark.parametrize(
    ("value", "seen"), [("", ()), ("-1", ()), ("3", ("3",)), (" 1, MIG-0a/1/0 ", ("1", "MIG-0a/1/0"))]
)
def test_visible_gpus(value: str, seen: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, value)
    assert visible_gpus() == seen


def grid(folder: Path, **changes: Any) -> Path:
    data = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text())
    small = {
        "calibrators": ["uncalibrated"],
        "calibration": {"name": "synthetic-questions", "questions": 12, "trajectories": 2, "follow_ups": 2},
        "datasets": [{"name": "synthetic-questions", "questions": 12}],
        "measurement": {"measured": 2, "follow_ups": 2, "replicates": 100},
        "shards": {"questions": 4, "trajectories": 8},
        "strategies": ["pass@1"],
        "scaling": {"samples": 4},
    }
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump(data | small | changes))
    return path


SPREAD = """
from prmcal import prm
from prmcal.registry.prms.pooling import QwenVLLMPRM

@prm("spread")
class Spread(QwenVLLMPRM):
    packages = ()  # vLLM may be absent.
"""


def spread_prm(gpus: int) -> dict[str, Any]:
    return {
        "name": "large",
        "plugin": "qwen-vllm",
        "arguments": {"checkpoint": "nano:prm", "tensor_parallel": gpus},
    }


def test_there_is_a_worker_for_each_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for gpus, expected in [("0,1,2,3", 4), ("7", 1)]:
        monkeypatch.setenv(VARIABLE, gpus)
        assert default_workers() == expected
    monkeypatch.setenv(VARIABLE, "")
    assert default_workers() >= 1


def test_a_tensor_parallel_that_is_no_number_is_refused(
    tmp_path: Path, prmcal: Prmcal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "0,1")
    prm = spread_prm(2) | {"arguments": {"checkpoint": "nano:prm", "tensor_parallel": "all"}}
    done = prmcal("run", grid(tmp_path, prms=[prm]), "--out", tmp_path / "out", "--plugin", PLUGINS / "synthetic.py")
    assert done.returncode == 2
    assert "'tensor_parallel' parameter of the prm 'qwen-vllm'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_that_is_too_large_fails_its_cells_and_no_others(
    tmp_path: Path, prmcal: Prmcal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "0")
    small = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text())["prms"][0]
    spread = tmp_path / "spread.py"
    spread.write_text(SPREAD)
    fast = {"name": "fast", "plugin": "synthetic-llm"}
    path = grid(tmp_path, llms=[fast], prms=[small, spread_prm(4) | {"plugin": "spread"}])
    plugins = ("--plugin", PLUGINS / "synthetic.py", "--plugin", spread)
    run = ("run", path, "--out", tmp_path / "out", *plugins)
    done = prmcal(*run)
    assert done.returncode == 3
    text = " ".join(done.stderr.split())
    assert text.count("failed: large is spread over 4 GPUs, and this machine has 1. Lower its") == 1
    assert text.count("prmcal: error:") == 1
    assert prmcal(*run, "--only", f"prm={small['name']}").returncode == 0


def test_every_worker_has_gpus_of_its_own(tmp_path: Path, prmcal: Prmcal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "4,5,6,7")
    told = tmp_path / "told"
    told.mkdir()
    plugin = tmp_path / "telling.py"
    plugin.write_text(PLUGIN.format(synthetic=PLUGINS / "synthetic.py", folder=told))
    path = grid(tmp_path, llms=[{"name": f"weak-{n}", "plugin": "telling", "arguments": {"skill": 0.7}} for n in "ab"])
    done = prmcal("run", path, "--out", tmp_path / "out", "--workers", 2, "--plugin", plugin)
    assert done.returncode == 0, done.stderr
    assert {each.read_text() for each in told.iterdir()} == {"4,5", "6,7"}


def test_a_worker_grows_for_a_large_model_and_small_ones_take_its_place(
    tmp_path: Path, prmcal: Prmcal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "4,5")
    told = tmp_path / "told"
    told.mkdir()
    plugin = tmp_path / "telling.py"
    plugin.write_text(PLUGIN.format(synthetic=PLUGINS / "synthetic.py", folder=told))
    large = {"name": "large", "plugin": "telling", "arguments": {"skill": 0.7, "tensor_parallel": 2}}
    path = grid(
        tmp_path,
        llms=[{"name": "weak", "plugin": "telling", "arguments": {"skill": 0.7}}, large],
    )
    done = prmcal("run", path, "--out", tmp_path / "out", "--plugin", plugin)
    assert done.returncode == 0, done.stderr
    assert {each.read_text() for each in told.iterdir()} == {"4", "5", "4,5"}
