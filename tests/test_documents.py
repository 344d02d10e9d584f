"""Documents that cannot go stale: what they show is run, what exists is in them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Prmcal

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def example(marker: str) -> str:
    """The Python example of the documents that registers `marker`."""
    blocks = re.findall(r"```python\n(.*?)```", README + CONTRIBUTING, flags=re.DOTALL)
    (found,) = [block for block in blocks if marker in block]
    return found


@pytest.mark.parametrize(
    "marker",
    [
        '@prm("blunt")',
        '@calibrator("platt")',
        '@calibrator("shrink")',
        '@strategy("careful")',
        '@strategy("narrowing search")',
    ],
)
def test_the_examples_for_plugin_authors_pass_their_checks(
    tmp_path: Path, prmcal: Prmcal, marker: str
) -> None:
    path = tmp_path / "my_plugins.py"
    path.write_text(example(marker))
    checked = prmcal("check", path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "passed" in checked.stdout
    assert "FAILED" not in checked.stdout


def test_a_prm_takes_under_30_lines() -> None:
    assert len(example('@prm("blunt")').strip().splitlines()) < 30


@pytest.mark.parametrize("marker", ['@strategy("careful")', '@strategy("narrowing search")'])
def test_a_strategy_takes_under_40_lines(marker: str) -> None:
    assert len(example(marker).strip().splitlines()) < 40


def test_the_readme_names_every_command(prmcal: Prmcal) -> None:
    commands = re.findall(
        r"^  ([\w-]+) ", prmcal("--help").stdout.partition("Commands:")[2], flags=re.MULTILINE
    )
    assert len(commands) >= 9
    assert [name for name in commands if f"prmcal {name}" not in README] == []


def test_help_and_list_load_no_torch() -> None:
    code = "import sys; sys.argv = ['prmcal', {!r}]\nfrom prmcal.harness.cli import main\n"
    code += "try: main()\nexcept SystemExit: pass\nsys.exit('torch' in sys.modules)"
    for argument in ("--help", "list"):
        subprocess.run(
            [sys.executable, "-c", code.format(argument)], cwd=ROOT, check=True, capture_output=True
        )


# What a package may import of the others, beside prmcal.errors, and in harness what a room may import of the rooms.
PACKAGES = {"registry": set(), "db": set(), "harness": {"registry", "db"}, "dashboard": {"db"}}
ROOMS = {
    "storage": set(),
    "metrics": set(),
    "jobs": {"storage", "metrics"},
    "planning": {"storage", "jobs"},
    "machine": {"planning"},
    "costs": {"storage", "jobs", "planning"},
    "execution": {"storage", "jobs", "planning", "costs", "machine"},
    "report": {"storage"},
    "site": {"storage", "report"},
    "commands": {"storage", "jobs", "planning", "costs", "machine", "execution"},
}


def imported(path: Path) -> list[str]:
    """The modules that a file imports anywhere in it."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names.append(node.module or "")
    return names


def test_packages_import_in_one_direction() -> None:
    for package, may in PACKAGES.items():
        for path in (ROOT / package).rglob("*.py"):
            others = {name.split(".")[1] for name in imported(path) if name.startswith("prmcal.")}
            assert others <= may | {package, "errors"}, f"{path} imports {others}"


def test_rooms_of_the_harness_import_in_one_direction() -> None:
    for room, may in ROOMS.items():
        for path in (ROOT / "harness" / room).rglob("*.py"):
            others = {name.split(".")[2] for name in imported(path) if name.startswith("prmcal.harness.")}
            assert others <= may | {room}, f"{path} imports {others}"


def test_nothing_is_imported_under_its_bare_name() -> None:
    for top in ("src/prmcal", "registry", "harness", "db", "dashboard", "benchmarks", "tests"):
        for path in (ROOT / top).rglob("*.py"):
            bare = {name for name in imported(path) if name.split(".")[0] in PACKAGES}
            assert not bare, f"{path} imports {bare}"
