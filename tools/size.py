"""Measure the size of the project: ``python -m tools.size``.

Lines are those of the Python files that git tracks, with empty ones and comments. The product is registry, harness, db,
dashboard and src. Words are those of README.md, CONTRIBUTING.md and the pages in docs, as ``wc -w`` counts, without
the parts that are written from the code. Names are those that product, tools and benchmarks bind: variables,
attributes, parameters, functions and classes. `walk` counts what is read to follow a run. With ``--check`` the exit
code is 1 if a figure exceeds its limit.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

PRODUCT = ("registry", "harness", "db", "dashboard", "src")
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "docs")
_GENERATED = re.compile(r"<!-- generated: .*?<!-- end -->", re.DOTALL)
LIMITS = {
    "lines of the product": 46_000,
    "lines of tests": 36_000,
    "lines of tools": 2_000,
    "lines of benchmarks": 4_400,
    "words of documents": 30_000,
    "commands": 24,
    "functions read to follow a run": 20,
    "files of these functions": 12,
    "returns to them from other files": 10,
}
"""The largest value that each figure may have."""
_VAGUE = {*["each", "found", "own", "known", "given", "asked", "kept", "told", "wanted", "thing", "item", "result"]}
"""Names that do not say what they hold."""
MOST_VAGUE = 0.005
"""The largest share of the bound names that may be such."""
_RUN = ("harness/execution", "harness/planning", "harness/jobs", "harness/storage/store.py", "db/writer.py")
_STEPS = {
    *["planner.build_plan", "Schedule.take", "__init__.compute", "Store.write", "Schedule.finish", "Transaction.load"]
}
"""The steps of a run: plan the grid, hand out a shard, compute it, store it, finish it, and load it for readers."""


def tracked(root: Path, *folders: str) -> list[Path]:
    """Return the files in some folders that git tracks and that exist, relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *folders], cwd=root, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    return [Path(name) for name in listed if name and (root / name).is_file()]


def lines(root: Path, *folders: str) -> int:
    """Count the lines of the Python files in some folders."""
    paths = (root / path for path in tracked(root, *folders) if path.suffix == ".py")
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def words(root: Path) -> int:
    """Count the words of the documents, without the parts that are written from the code."""
    pages = [path for path in tracked(root, *DOCUMENTS) if path.suffix == ".md"]
    return sum(len(_GENERATED.sub("", (root / path).read_text(encoding="utf-8")).split()) for path in pages)


def commands(root: Path) -> int:
    """Count the commands of ``prmcal``."""
    listed = tomllib.loads((root / "harness" / "cli" / "commands.toml").read_text(encoding="utf-8"))
    return sum(len(section) for section in listed.values())


def bound_names(root: Path, *folders: str) -> Iterator[str]:
    """Yield each name that the Python files in some folders bind, as often as it is bound."""
    for path in tracked(root, *folders):
        for node in ast.walk(ast.parse((root / path).read_text(encoding="utf-8"))) if path.suffix == ".py" else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield node.name
            elif isinstance(node, ast.arg):
                yield node.arg
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                yield node.id if isinstance(node, ast.Name) else node.attr


def walk(root: Path) -> tuple[int, int, int]:
    """Follow a run from its command, `run` of harness/cli/run.py. Return the numbers of functions, files and returns.

    A function is entered where it is first named, if it is one of the steps of a run or leads to one. The others are
    taken from their names. A return is a way back from another file to a function that has more lines. A method is of
    the class whose name ends with the word before its dot, as in ``schedule.take``.
    """
    functions: dict[str, tuple[Path, ast.FunctionDef]] = {}
    called: dict[str, list[str]] = {}  # The functions by the word that calls them.
    for path in tracked(root, "harness/cli/run.py", *_RUN):
        for scope in ast.walk(ast.parse((root / path).read_text(encoding="utf-8"))):
            title = getattr(scope, "name", path.stem)
            for function in scope.body if isinstance(scope, ast.Module | ast.ClassDef) else ():
                if isinstance(function, ast.FunctionDef):
                    name = f"{title}.{function.name}"
                    functions[name] = path, function
                    called.setdefault(title if function.name == "__init__" else function.name, []).append(name)
    lines: dict[str, dict[str, int]] = {name: {} for name in functions}  # Where each one names others first.
    for name, (_, function) in functions.items():
        for node in (node for node in ast.walk(function) if isinstance(node, ast.Name | ast.Attribute)):
            *holders, word = ast.unparse(node).replace("self.", f"{name.partition('.')[0]}.").split(".")[-2:]
            for callee in called.get(word, ()):
                title = callee.partition(".")[0]
                if title.lower().endswith(holders[0].lower()) if holders else word == title or title.islower():
                    lines[name][callee] = min(node.lineno, lines[name].get(callee, node.lineno))
    leading = set(_STEPS)
    while more := {name for name in functions if leading & lines[name].keys()} - leading:
        leading |= more
    entered, returns = {"run.run": functions["run.run"][0]}, 0

    def enter(name: str) -> None:
        nonlocal returns
        for callee in sorted(leading & lines[name].keys(), key=lines[name].__getitem__):
            if callee not in entered:
                entered[callee] = functions[callee][0]
                enter(callee)
                last_line = functions[name][1].end_lineno or 0
                returns += entered[callee] != entered[name] and lines[name][callee] < last_line

    enter("run.run")
    return len(entered), len({*entered.values()}), returns


def figures(root: Path) -> dict[str, int]:
    """Return the figures of a checkout, by their titles."""
    return {
        "lines of the product": lines(root, *PRODUCT),
        **{f"lines of {folder}": lines(root, folder) for folder in ("tests", "tools", "benchmarks")},
        "words of documents": words(root),
        "commands": commands(root),
        **dict(zip(list(LIMITS)[-3:], walk(root), strict=True)),
    }


def main() -> int:
    """Print the figures, and return the exit code."""
    parser = argparse.ArgumentParser(description="Measure the size of the project.")
    parser.add_argument("--check", action="store_true", help="fail if a figure exceeds its limit")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parents[1], help="a checkout")
    options = parser.parse_args()
    measured = figures(options.root)
    for title, value in measured.items():
        print(f"{value:>9,}  {title}" + f" (at most {LIMITS[title]:,})")
    names = list(bound_names(options.root, *PRODUCT, "tools", "benchmarks"))
    vague = sum(name.strip("_").lower() in _VAGUE for name in names)
    print(f"{vague:>9,}  names that do not say what they hold ({vague / len(names):.2%} of {len(names):,})")
    exceeded = [title for title, limit in LIMITS.items() if measured[title] > limit]
    exceeded += ["names that do not say what they hold"] * (vague > MOST_VAGUE * len(names))
    if options.check and exceeded:
        print(f"Too many: {', '.join(exceeded)}. Delete, join or rename something.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
