"""The directions of imports: between packages, between the rooms of the harness, and without circles."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.conftest import ROOT

# For each package the other packages that it may import. All may import prmcal itself (for its version), prmcal.errors,
# prmcal.log_odds, prmcal.remembered, prmcal.resamples and prmcal.steps.
PACKAGES: dict[str, set[str]] = {
    "registry": set(),
    "db": set(),
    "harness": {"registry", "db", "grids"},
    "dashboard": {"db"},
}
SHARED = {"arrays", "errors", "log_odds", "remembered", "resamples", "steps"}
# For each room of the harness the other rooms that it may import.
ROOMS: dict[str, set[str]] = {
    "storage": set(),
    "metrics": set(),
    "terminal": set(),
    "audit": {"metrics", "report", "site", "storage", "terminal"},
    "jobs": {"metrics", "storage"},
    "planning": {"jobs", "storage"},
    "inference": {"jobs", "planning", "storage"},
    "serving": {"inference", "storage"},
    "cluster": {"execution", "jobs", "planning", "storage"},
    "execution": {"jobs", "planning", "storage", "terminal"},
    "merging": {"execution", "jobs", "planning", "storage"},
    "report": {"storage"},
    "site": {"report", "storage"},
    "notebook": {"cluster", "execution", "planning", "report", "site", "storage"},
    "cli": {
        "audit",
        "cluster",
        "execution",
        "inference",
        "jobs",
        "merging",
        "planning",
        "report",
        "serving",
        "site",
        "storage",
        "terminal",
    },
}


def module_of(path: Path) -> str:
    """The name under which a file of the package is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("prmcal", *parts)).removesuffix(".__init__")


@cache
def modules() -> dict[str, Path]:
    """All modules of the package without its face.

    The face, ``prmcal/__init__.py``, names most modules and imports one when a name of it is first used. So whatever
    imports it, for example for the version, does not depend on these modules.
    """
    found = {module_of(path): path for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    return found | {f"prmcal.{name}": ROOT / "src" / "prmcal" / f"{name}.py" for name in SHARED}


@cache
def imported(path: Path) -> tuple[str, ...]:
    """The modules that a file imports anywhere in it: at the top, in functions, and for type checkers only."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{path} has a relative import"
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names += [name if name in modules() else node.module for name in inner]
    return tuple(names)


def module_graph() -> dict[str, set[str]]:
    """The modules of the package that each module imports.

    Some dependencies are left out, because they cannot be seen in the statements of a file or cannot be avoided:

    - strings such as ``module:Class`` in the registries and the names of the modules that compute jobs. They exist
      so that a module can be loaded by name without being imported;
    - the packages above a module. Python imports ``a`` and ``a.b`` before ``a.b.c``, so that every ``__init__.py``
      that exports a name of its own folder would be a circle.
    """
    return {
        module: {name for name in imported(path) if name in modules() and name != module}
        for module, path in modules().items()
    }


def room_of(module: str) -> str:
    """The folder that a module is in. The modules beside the folders of a package are rooms of their own."""
    path = modules()[module]
    top = path.parent.parent == ROOT or path.parent.name == "prmcal"
    return module if top or path.name == "__init__.py" else module.rpartition(".")[0]


def room_graph() -> dict[str, set[str]]:
    graph: dict[str, set[str]] = {}
    for module, others in module_graph().items():
        room = room_of(module)
        graph.setdefault(room, set()).update({room_of(other) for other in others} - {room})
    return graph


def circle(graph: dict[str, set[str]]) -> str:
    """A circle of a graph in words, or empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " <- ".join(error.args[1])
    return ""


def test_packages_import_in_one_direction() -> None:
    for package, may in PACKAGES.items():
        for path in (ROOT / package).rglob("*.py"):
            others = {name.split(".")[1] for name in imported(path) if name.startswith("prmcal.")}
            assert others <= may | SHARED | {package}, f"{path} imports {others}"


def test_rooms_of_the_harness_import_in_one_direction() -> None:
    harness = ROOT / "harness"
    folders, files = harness.glob("*/__init__.py"), harness.glob("*.py")
    assert set(ROOMS) == {path.parent.name for path in folders} | {path.stem for path in files} - {"__init__"}
    for room, may in ROOMS.items():
        for path in (harness / room).rglob("*.py") if (harness / room).is_dir() else [harness / f"{room}.py"]:
            others = {name.split(".")[2] for name in imported(path) if name.startswith("prmcal.harness.")}
            assert others <= may | {room}, f"{path} imports {others}"


def test_nothing_is_imported_under_its_bare_name() -> None:
    for top in ("src/prmcal", "registry", "harness", "db", "dashboard", "benchmarks", "tests"):
        for path in (ROOT / top).rglob("*.py"):
            bare = {name for name in imported(path) if name.split(".")[0] in PACKAGES}
            assert not bare, f"{path} imports {bare}"


def test_modules_import_each_other_in_no_circle() -> None:
    graph = module_graph()
    assert sum(map(len, graph.values())) > 500  # The imports were found.
    assert not circle(graph)


def test_rooms_import_each_other_in_no_circle() -> None:
    assert not circle(room_graph())


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == ""
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) in ("b <- c <- b", "c <- b <- c")
