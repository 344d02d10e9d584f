"""Documents that cannot go stale: what they show is run, what exists is in them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Prmcal

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").rglob("*.md")))


def example(marker: str) -> str:
    """The Python example of the documents that registers `marker`."""
    blocks = re.findall(r"```python\n(.*?)```", README + PAGES, flags=re.DOTALL)
    (found,) = [block for block in blocks if marker in block]
    return str(found)


@pytest.mark.parametrize(
    "marker",
    [
        '@prm("blunt")',
        '@prm("hedging")',
        '@calibrator("shift")',
        '@calibrator("my-platt")',
        '@strategy("careful")',
        '@strategy("narrowing search")',
    ],
)
def test_the_examples_for_plugin_authors_pass_their_checks(tmp_path: Path, prmcal: Prmcal, marker: str) -> None:
    path = tmp_path / "my_plugins.py"
    path.write_text(example(marker))
    checked = prmcal("check", path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "passed" in checked.stdout
    assert "FAILED" not in checked.stdout


def test_the_readmes_grid_stands_alone_and_can_be_planned(tmp_path: Path, prmcal: Prmcal) -> None:
    (grid,) = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    (tmp_path / "mine.yaml").write_text(grid)
    assert "There is no plugin file" in prmcal("plan", tmp_path / "mine.yaml").stderr
    (tmp_path / "shift.py").write_text(example('@calibrator("shift")'))
    planned = prmcal("plan", tmp_path / "mine.yaml")
    assert planned.returncode == 0, planned.stderr
    assert "jobs" in planned.stdout
    (tmp_path / "mine.yaml").write_text(grid.replace("plugins: [shift.py]", ""))
    refused = " ".join(prmcal("plan", tmp_path / "mine.yaml").stderr.split())
    assert "There is no calibrator 'shift'" in refused and "`plugins: [FILE]` in the grid" in refused


def test_help_and_list_load_no_torch() -> None:
    code = "import sys; sys.argv = ['prmcal', *{!r}.split()]\nfrom prmcal.harness.cli import main\n"
    code += "try: main()\nexcept SystemExit: pass\nsys.exit('torch' in sys.modules)"
    for argument in ("--help", "list", "list calibrator"):
        subprocess.run([sys.executable, "-c", code.format(argument)], cwd=ROOT, check=True, capture_output=True)
