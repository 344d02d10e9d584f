"""Every benchmark runs, here in a tiny size, and the table has each of them."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch

from benchmarks.__main__ import FAMILIES, main
from benchmarks.simulations.interval_coverage import SIMULATIONS


@pytest.mark.parametrize("family", FAMILIES)
def test_each_benchmark_of_a_family_has_a_row(family: str, capsys: pytest.CaptureFixture[str]) -> None:
    with torch.random.fork_rng():
        assert main([family, "--tiny"]) == 0
    table = [line for line in capsys.readouterr().out.splitlines() if line.startswith(f"| {family} |")]
    assert len(table) == len(import_module(f"benchmarks.{family}").BENCHMARKS)


def test_only_the_real_sizes_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--tiny", "--write"])
    assert "--write needs all families in their real sizes." in capsys.readouterr().err


@pytest.mark.parametrize(
    "name",
    [
        "Brier",
        "saving at 95%",
        "coverage of level 0.5, 4 follow-ups",
        "rank, 1 settings, clear",
        "test of signed_error",
    ],
)
def test_a_simulation_of_each_kind_returns_a_share(name: str) -> None:
    assert 0 <= SIMULATIONS[name](12, 4) <= 1
