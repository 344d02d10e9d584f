"""The benchmark that needs a GPU: it says so, and its code also runs without one."""

from __future__ import annotations

import pytest
import torch

from benchmarks.models.lora_7b import main


def test_without_a_gpu_it_says_what_it_needs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main([]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert "needs a GPU" in output.err


def test_a_toy_shape_runs_on_the_cpu(one_thread: None, capsys: pytest.CaptureFixture[str]) -> None:
    with torch.random.fork_rng():
        assert main(["--tiny", "--steps", "3", "--trajectories", "2"]) == 0
    title, _, *table = capsys.readouterr().out.splitlines()
    assert "2 trajectories of 3 steps: 8 prefixes" in title
    assert [line.count("|") for line in table] == [7] * 6
