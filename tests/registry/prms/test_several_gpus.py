"""Run the tests of PRMs over several GPUs in a separate process, since they register a kind of device."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SUITE = Path(__file__).with_name("several_gpus.py")


def test_in_a_process_of_their_own() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb", "short", str(SUITE)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout
