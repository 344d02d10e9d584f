"""The benchmark that needs a GPU: it says so, and its code also runs without one, with tiny models."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.gpu.__main__ import main


def test_without_a_gpu_it_says_what_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["--out", str(tmp_path)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert "needs a GPU" in output.err
    assert not any(tmp_path.iterdir())


def test_tiny_models_run_on_the_cpu_and_the_summary_has_every_step(one_thread: None, tmp_path: Path) -> None:
    steps = ("masks", "one-pass", "states", "memory", "lora-memory", "sampling")
    with torch.random.fork_rng():
        assert main(["--tiny", "--out", str(tmp_path), "--only", *steps]) == 0
    summary = (tmp_path / "summary.md").read_text()
    assert [line for line in summary.splitlines() if line.startswith("## ")] == [f"## `{name}`" for name in steps]
    assert "Failed" not in summary
    assert sum(line.startswith("| --- |") for line in summary.splitlines()) == len(steps)
