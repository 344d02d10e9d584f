"""Run the tests of PRMs over several GPUs in a separate process, since they register a kind of device."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import ROOT, environment
from tests.forked import run_command

SUITE = Path(__file__).with_name("several_gpus.py")


def test_in_a_process_of_their_own() -> None:
    code = "import pytest, sys; sys.exit(pytest.main(sys.argv[1:]))"
    options = ["-q", "-W", "ignore::pytest.PytestAssertRewriteWarning", "-p", "no:cacheprovider", "--tb", "short"]
    done = run_command([*options, str(SUITE)], environment(), ROOT, code)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout
