"""The notebook runs from its first cell to its last, and the examples of the page on new questions work as printed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import nbformat
import pytest

from tests.conftest import ROOT, environment
from tests.forked import run_command
from tests.served_run import shared_run

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
SMALLER = {
    '"questions": 60': '"questions": 6',
    '"questions": 30': '"questions": 4',
    '"samples": 16': '"samples": 4',
    '"nano-math").questions("test", 36)[30:]': '"nano-math").questions("test", 32)[30:]',
    '"runs/example")': '"runs/example", workers=1)',  # Each worker imports the libraries anew.
}

SHELL = """
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
for source in {sources}:
    cell = shell.run_cell(source)
    cell.raise_error()
    print(*shell.display_formatter.format(cell.result)[0])
"""
"""What a notebook's kernel does with its cells."""


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_gives_a_calibrated_prm(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for large, small in SMALLER.items():  # They take most of the time.
        (cell,) = (cell for cell in notebook.cells if large in cell.source)
        cell.source = cell.source.replace(large, small)
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    variables = environment() | {"IPYTHONDIR": str(tmp_path / "ipython")}
    done = run_command([], variables, tmp_path, SHELL.format(sources=sources))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "example" / "leaderboard.duckdb").exists()
    assert "image/png" in done.stdout


def test_the_examples_for_new_questions_work_as_they_are_printed(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shutil.copytree(shared_run(tmp_path_factory), tmp_path / "runs" / "demo")
    page = (ROOT / "docs" / "how-to" / "answer-questions.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL))
    assert "prm.score" in code and "prm.answer" in code
    done = run_command([], environment(), tmp_path, code + "\nprint(prm.answer(question, max_samples=1).samples)")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "1"
