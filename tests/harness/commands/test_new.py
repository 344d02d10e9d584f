"""`prmcal new` begins plugins that pass their checks at once, and writes over nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Prmcal, environment


def test_what_it_writes_passes_the_checks_and_its_test(prmcal: Prmcal, tmp_path: Path) -> None:
    for kind in ("prm", "calibrator", "llm", "dataset"):
        begun = prmcal("new", kind, f"my-{kind}", "--out", tmp_path)
        assert begun.returncode == 0, begun.stderr
        assert f"Next: prmcal check {tmp_path / f'my_{kind}.py'}" in begun.stdout
        text = (tmp_path / f"my_{kind}.py").read_text(encoding="utf-8")
        assert "Fill in" in text and len(text.splitlines()) <= 26
        checked = prmcal("check", tmp_path / f"my_{kind}.py")
        assert checked.returncode == 0, checked.stdout
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    tested = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("prm", "my-prm"), "my_prm.py cannot be written: File exists"),
        (("prm", "My_prm"), "A name has small letters"),
        (("prm", "qwen"), "There is a prm 'qwen' already"),
        (("metric", "mine"), "KIND must be one of prm, calibrator, llm, dataset"),
    ],
)
def test_what_cannot_be_written_is_said(prmcal: Prmcal, tmp_path: Path, arguments: tuple[str, str], words: str) -> None:
    (tmp_path / "my_prm.py").write_text("mine", encoding="utf-8")
    refused = prmcal("new", *arguments, "--out", tmp_path)
    assert refused.returncode == 2
    assert words in " ".join(refused.stderr.split())
    assert [path.name for path in tmp_path.iterdir()] == ["my_prm.py"]
    assert (tmp_path / "my_prm.py").read_text(encoding="utf-8") == "mine"
