"""Measure the size and the shape of the product: ``python -m tools.size``.

The product is the Python code of registry, harness, db, dashboard and src. Tests, tools, benchmarks and documents do
not count. With ``--check`` the exit code is 1 if a figure exceeds its limit.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

FOLDERS = ("registry", "harness", "db", "dashboard", "src")
WALK = ("prmcal.harness.execution.run", "run_grid")
# The largest value that each figure may have.
LIMITS = {"lines": 60_000}


@dataclass(frozen=True)
class Module:
    """A Python file of the product.

    Attributes
    ----------
    path : Path
        Relative to the root of the repository.
    text : str
    """

    path: Path
    text: str

    @property
    def name(self) -> str:
        """The name by which other modules import it."""
        parts = self.path.with_suffix("").parts
        parts = parts[2:] if parts[:2] == ("src", "prmcal") else parts
        return ".".join(("prmcal", *(part for part in parts if part != "__init__")))

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax."""
        return ast.parse(self.text)

    @property
    def lines(self) -> int:
        """All lines, also empty ones and comments."""
        return len(self.text.splitlines())

    @property
    def header(self) -> int:
        """The lines before the code: the module's docstring, the imports and ``__all__``."""
        last = 0
        for node in self.tree.body:
            if not _is_header(node):
                break
            last = node.end_lineno or node.lineno
        return last

    def imports(self, names: set[str]) -> set[str]:
        """Return the names of the modules that it imports, wherever the import stands, among `names`."""
        found = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                found |= {f"{node.module}.{each.name}" for each in node.names} | {node.module}
            elif isinstance(node, ast.Import):
                found |= {each.name for each in node.names}
        return (found & names) - {self.name}


def _is_header(node: ast.stmt) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]) | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return False


def product(root: Path) -> list[Module]:
    """Read the Python files of the product that git tracks."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *FOLDERS], cwd=root, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    paths = [Path(each) for each in listed if each.endswith(".py") and (root / each).is_file()]
    return [Module(path, (root / path).read_text(encoding="utf-8")) for path in paths]


def walk(modules: list[Module], module: str, function: str) -> list[str]:
    """Follow a function as a reader does, who opens each function that it calls, once, in the order of the calls.

    The functions of its own module are followed to the end. A function of another module is opened, with the functions
    of that module that it calls, and the reader comes back. What lies deeper is trusted by its name.

    Returns
    -------
    list of str
        The modules in which the reader stays, one after the other.
    """
    names = {each.name: each for each in modules}
    stays = [module]
    seen: set[tuple[str, str]] = set()

    def follow(here: str, called: str, *, deeper: bool) -> None:
        body = names[here].tree
        own = {each.name: each for each in body.body if isinstance(each, ast.FunctionDef | ast.ClassDef)}
        if (here, called) in seen or called not in own:
            return
        seen.add((here, called))
        imported = {
            each.asname or each.name: (node.module, each.name)
            for node in ast.walk(body)
            if isinstance(node, ast.ImportFrom) and node.module
            for each in node.names
        }
        for call in sorted(_calls(own[called]), key=lambda each: (each.lineno, each.col_offset)):
            match call.func:
                case ast.Name(id=name):
                    target = imported.get(name)
                case ast.Attribute(value=ast.Name(id=name), attr=name_there) if name in imported:
                    target = (".".join(imported[name]), name_there)
                case _:
                    continue
            if isinstance(call.func, ast.Name) and name in own:
                follow(here, name, deeper=deeper)
            elif deeper and target and target[0] in names and target not in seen:
                stays.append(target[0])
                follow(*target, deeper=False)
                stays.append(here)

    follow(module, function, deeper=True)
    return [each for each, before in zip(stays, ["", *stays], strict=False) if each != before]


def _calls(body: ast.stmt) -> list[ast.Call]:
    return [each for each in ast.walk(body) if isinstance(each, ast.Call)]


def figures(root: Path) -> dict[str, float]:
    """Return the figures of the product in a checkout, by their titles."""
    modules = product(root)
    names = {each.name for each in modules}
    plain = {each.name for each in modules if each.path.name != "__init__.py"}
    importers = Counter(name for each in modules for name in each.imports(names))
    lines = sum(each.lines for each in modules)
    stays = walk(modules, *WALK)
    return {
        "lines": lines,
        "files": len(modules),
        "folders": len({each.path.parent for each in modules}),
        "lines of headers, %": round(100 * sum(each.header for each in modules) / lines, 1),
        "files under 40 lines": sum(each.lines < 40 for each in modules),
        "modules with one importer": sum(importers[name] == 1 for name in plain),
        "stays in the walk of a grid": len(stays),
        "modules in it": len(set(stays)),
        "returns in it": len(stays) - len(set(stays)),
    }


def main() -> int:
    """Print the figures, and return the exit code."""
    parser = argparse.ArgumentParser(description="Measure the size and the shape of the product.")
    parser.add_argument("--check", action="store_true", help="fail if a figure exceeds its limit")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parents[1], help="a checkout")
    arguments = parser.parse_args()
    found = figures(arguments.root)
    for title, value in found.items():
        print(f"{value:>9,}  {title}" + (f" (at most {LIMITS[title]:,})" if title in LIMITS else ""))
    exceeded = [title for title, limit in LIMITS.items() if found[title] > limit]
    if arguments.check and exceeded:
        print(f"Too many: {', '.join(exceeded)}. Delete or join something.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
