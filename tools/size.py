"""Measure the size of the project: ``python -m tools.size``.

Lines are those of the Python files that git tracks, with empty ones and comments. The product is registry, harness, db,
dashboard and src. Words are those of README.md, CONTRIBUTING.md and the pages in docs, as ``wc -w`` counts, without
the parts that are written from the code. Names are those that product, tools and benchmarks bind: variables,
attributes, parameters, functions and classes. With ``--check`` the exit code is 1 if a figure exceeds its limit.
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
    "lines of benchmarks": 5_000,
    "words of documents": 30_000,
    "commands": 24,
}
"""The largest value that each figure may have."""
_VAGUE = {*["each", "found", "own", "known", "given", "asked", "kept", "told", "wanted", "thing", "item", "result"]}
"""Names that do not say what they hold."""
MOST_VAGUE = 0.005
"""The largest share of the bound names that may be such."""


def tracked(root: Path, *folders: str) -> list[Path]:
    """Return the files in some folders that git tracks and that exist, relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *folders], cwd=root, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    return [Path(name) for name in listed if name and (root / name).is_file()]


def lines(root: Path, *folders: str) -> int:
    """Count the lines of the Python files in some folders."""
    paths = [path for path in tracked(root, *folders) if path.suffix == ".py"]
    return sum(len((root / path).read_text(encoding="utf-8").splitlines()) for path in paths)


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
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                yield node.attr


def figures(root: Path) -> dict[str, int]:
    """Return the figures of a checkout, by their titles."""
    return {
        "lines of the product": lines(root, *PRODUCT),
        "lines of tests": lines(root, "tests"),
        "lines of tools": lines(root, "tools"),
        "lines of benchmarks": lines(root, "benchmarks"),
        "words of documents": words(root),
        "commands": commands(root),
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
