"""What the source file of a plugin tells: the packages that it imports, and the line at which it raised."""

from __future__ import annotations

import ast
import inspect
import linecache
import traceback
from collections.abc import Iterator
from pathlib import Path

__all__ = ["heavy_imports", "place_in"]

_HEAVY = frozenset(
    {
        "accelerate",
        "datasets",
        "jax",
        "pandas",
        "peft",
        "sklearn",
        "tensorflow",
        "torch",
        "transformers",
        "vllm",
    }
)
_LONGEST_LINE = 100


def heavy_imports(cls: type) -> Iterator[tuple[str, int, str]]:
    """Yield the heavy packages that the file of a class imports when it is loaded, with line and name of the file.

    Imports in functions and for type checkers only are left out, and so are all files of prmcal.
    """
    path = _file_of(cls)
    if path is None:
        return
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return
    for node in _executed(tree):
        modules = (
            [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        )
        for module in modules:
            package = module.partition(".")[0]
            if package in _HEAVY:
                yield package, node.lineno, path.name


def place_in(cls: type, error: BaseException) -> str:
    """Return where in its file a class raised, as "line 7 of mine.py, `return x[0]`"; empty if it did not."""
    path = _file_of(cls)
    frames = [
        each for each in traceback.extract_tb(error.__traceback__) if path and Path(each.filename) == path
    ]
    if not frames:
        return ""
    line = (frames[-1].line or linecache.getline(frames[-1].filename, frames[-1].lineno or 0)).strip()
    code = f", `{line}`" if line and len(line) <= _LONGEST_LINE else ""
    return f"line {frames[-1].lineno} of {Path(frames[-1].filename).name}{code}"


def _file_of(cls: type) -> Path | None:
    """The source file of a class outside prmcal."""
    if cls.__module__.startswith("prmcal."):
        return None
    try:
        return Path(inspect.getfile(cls))
    except (OSError, TypeError):  # A class of an interactive session has no file.
        return None


def _executed(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports that run when the file is loaded."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from _executed(other)
        elif not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield from _executed(child)
