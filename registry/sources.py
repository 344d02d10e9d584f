"""The source code of plugins: its hash, which is part of the job keys, and the files that a plugin needs.

The hash is that of the syntax: comments, docstrings and the layout do not count. Of the file of a plugin, the class
counts with all definitions that it refers to, directly or through others. Local modules that these import count as a
whole. A package that is installed counts with its name and version. A module is local if it belongs neither to Python
nor to an installed package. A package that is installed as editable is local.

Where a reference cannot be decided, more code counts rather than less: the whole module if it imports ``*`` or looks
names up as data, and every statement that does more than to define a name. Two things are not seen: modules whose names
are put together when the program runs, and files that are not Python.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from prmcal.errors import InvalidPluginError

__all__ = ["local_files", "source_hash"]

_INSTALLED = {"site-packages", "dist-packages"}
_DYNAMIC = {"eval", "exec", "globals", "vars"}
_DYNAMIC_CLASSES = {"__init_subclass__", "__subclasses__", "metaclass"}
_IMPORTERS = {"__import__", "import_module"}


@dataclass(frozen=True)
class _Module:
    """A local module, by its full name. Only the name of a plugin file that was given with ``--plugin`` is free."""

    name: str
    path: Path

    @property
    def package(self) -> str:
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


@dataclass(frozen=True)
class _Import:
    """``from`` `module` ``import`` `name`, or ``import`` `module` with an empty name; `level` counts leading dots."""

    module: str
    name: str = ""
    level: int = 0


@dataclass(frozen=True)
class _Statement:
    """A statement at the top of a module.

    Attributes
    ----------
    text : str
        Its code without comments and docstrings, in one layout.
    defines : frozenset of str
        The names that it defines; empty if it does more than that.
    uses : frozenset of str
        The names that it refers to, also as strings.
    decorators : frozenset of str
        The names in its decorators.
    imports : tuple of _Import
        The imports in it, also those in functions.
    is_import : bool
        Whether it is an import itself.
    """

    text: str
    defines: frozenset[str]
    uses: frozenset[str]
    decorators: frozenset[str]
    imports: tuple[_Import, ...]
    is_import: bool

    @property
    def acts(self) -> bool:
        """Whether it is an import that may do more than to define a name."""
        return self.is_import and any(each.level or _is_foreign(each.module) for each in self.imports)


@dataclass(frozen=True)
class _Source:
    """The statements of a file. `dynamic` is true if they cannot be told apart."""

    statements: tuple[_Statement, ...]
    dynamic: bool

    @property
    def text(self) -> str:
        return "\n".join(each.text for each in self.statements)


def source_hash(cls: type) -> str:
    """Hash the code that decides what a class outside prmcal does.

    Returns
    -------
    str
        16 hexadecimal digits. They do not depend on the place of the files.

    Raises
    ------
    InvalidPluginError
        If the class is not in a file, or a local module is not valid Python.
    """
    own: list[list[str]] = []
    whole: dict[str, str] = {}
    installed: set[str] = set()
    for base in cls.__mro__:
        if not _is_foreign(base.__module__):
            continue
        module = _module_of(base)
        distribution = _distribution(module)
        if distribution:
            installed.add(distribution)
            continue
        reached = _reached(module, base.__qualname__)
        own.append([each.text for each in reached])
        imported = [found for each in reached for found in _imported(each, module)]
        for found in _with_their_imports(imported).values():
            whole[found.name] = _source(found).text
            whole |= {parent.name: _source(parent).text for parent in _parents(found)}
        whole |= {parent.name: _source(parent).text for parent in _parents(module)}
    content = json.dumps([own, whole, sorted(installed)], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def local_files(plugin: Path | type) -> dict[str, Path]:
    """Return the local modules that a plugin consists of: its own, and all that it imports directly or indirectly.

    Parameters
    ----------
    plugin : Path or type
        A plugin file, or a class.

    Returns
    -------
    dict of str to Path
        The absolute path of each module by its full name, such as ``helpers.text``. Packages are included with their
        ``__init__.py``. The first entry of a plugin file is the file itself, under its name without ``.py``.

    Raises
    ------
    InvalidPluginError
        If the class is not in a file, or a module is not valid Python.
    """
    if isinstance(plugin, Path):
        start = [_Module(plugin.stem, plugin.resolve())]
    else:
        classes = [each for each in plugin.__mro__ if _is_foreign(each.__module__)]
        start = [module for module in map(_module_of, classes) if not _distribution(module)]
    return {module.name: module.path for module in _with_their_imports(start, parents=True).values()}


def _is_foreign(module: str) -> bool:
    """Whether a module belongs neither to prmcal nor to Python."""
    top = module.partition(".")[0]
    return top != "prmcal" and (top == "__main__" or top not in sys.stdlib_module_names)


def _module_of(cls: type) -> _Module:
    try:
        return _Module(cls.__module__, Path(inspect.getfile(cls)).resolve())
    except (OSError, TypeError) as error:
        raise InvalidPluginError(
            f"The class {cls.__qualname__} is not in a file, so its changes cannot be noticed. Write it into a file of "
            "its own, and set --plugin to its path."
        ) from error


def _distribution(module: _Module) -> str:
    """Return name and version of the installed package that a module belongs to; empty if it is local."""
    if not _INSTALLED & set(module.path.parts):
        return ""
    names = _distributions().get(module.name.partition(".")[0], ())
    return ", ".join(sorted(f"{name} {metadata.version(name)}" for name in set(names)))


@cache
def _distributions() -> dict[str, list[str]]:
    return dict(metadata.packages_distributions())


def _reached(module: _Module, qualified_name: str) -> list[_Statement]:
    """Return the statements of a module that decide what one of its classes does."""
    source = _source(module)
    statements = source.statements
    root = qualified_name.partition(".")[0]
    if source.dynamic or "<locals>" in qualified_name or not any(root in s.defines for s in statements):
        return list(statements)
    used = frozenset[str]().union(*(each.uses for each in statements))
    local = frozenset[str]().union(
        *(each.defines for each in statements if not each.is_import or any(_imported(each, module)))
    )
    wanted = {root}
    found: set[int] = set()
    while True:
        new = {
            index
            for index, each in enumerate(statements)
            if index not in found
            and (
                not each.defines
                or each.defines & wanted
                or each.decorators & local  # It may register itself.
                or (each.acts and not each.defines & used)  # It is imported for what its import does.
            )
        }
        if not new:
            ordered = [statements[index] for index in sorted(found)]
            return sorted(ordered, key=lambda each: (not each.is_import, each.text if each.is_import else ""))
        found |= new
        wanted.update(*(statements[index].uses for index in new))


def _with_their_imports(modules: Iterable[_Module], parents: bool = False) -> dict[Path, _Module]:
    """Return modules and all local modules that they import, if wanted with the packages that contain them."""
    found: dict[Path, _Module] = {}
    waiting = list(modules)[::-1]
    while waiting:
        module = waiting.pop()
        if module.path in found:
            continue
        found[module.path] = module
        if parents:
            waiting += _parents(module)
        for statement in _source(module).statements:
            waiting += _imported(statement, module)
    return found


def _parents(module: _Module) -> list[_Module]:
    """Return the packages that contain a module, which are imported before it."""
    found, folder, name = [], module.path.parent, module.package
    if module.path.name == "__init__.py":
        folder, name = folder.parent, name.rpartition(".")[0]
    while name and (folder / "__init__.py").is_file():
        found.append(_Module(name, folder / "__init__.py"))
        folder, name = folder.parent, name.rpartition(".")[0]
    return found


def _imported(statement: _Statement, module: _Module) -> Iterator[_Module]:
    """Yield the local modules that a statement of a module imports."""
    for each in statement.imports:
        name = each.module
        if each.level:
            try:
                name = importlib.util.resolve_name("." * each.level + name, module.package)
            except ImportError:
                continue
        for candidate in [name, f"{name}.{each.name}"] if each.name else [name]:
            found = _find(candidate, module.path.parent)
            if found is not None:
                yield found


def _find(name: str, beside: Path) -> _Module | None:
    """Find a local module without importing anything; None if there is none of that name."""
    if not _is_foreign(name):
        return None
    parts = name.split(".")
    spec = _spec_of(parts[0]) or PathFinder.find_spec(parts[0], [str(beside)])
    for count in range(2, len(parts) + 1):
        if spec is None or spec.submodule_search_locations is None or _is_installed(spec):
            return None
        spec = PathFinder.find_spec(".".join(parts[:count]), list(spec.submodule_search_locations))
    if spec is None or _is_installed(spec) or not (spec.origin or "").endswith(".py"):
        return None
    return _Module(name, Path(str(spec.origin)).resolve())


def _spec_of(top: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(top)
    except (ImportError, ValueError):  # A module that was made by hand has no specification.
        return None


def _is_installed(spec: ModuleSpec) -> bool:
    return bool(_INSTALLED & set(Path(spec.origin or "").parts))


def _source(module: _Module) -> _Source:
    try:
        return _read(module.path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError) as error:
        raise InvalidPluginError(
            f"{module.path} cannot be loaded: {type(error).__name__}: {error}"
        ) from error


@cache
def _read(content: bytes) -> _Source:
    tree = ast.parse(content)
    nodes = list(ast.walk(tree))
    names = {each.id for each in nodes if isinstance(each, ast.Name)}
    others = (
        {each.attr for each in nodes if isinstance(each, ast.Attribute)}
        | {each.name for each in nodes if isinstance(each, ast.FunctionDef)}
        | {each.arg or "" for each in nodes if isinstance(each, ast.keyword)}
    )
    stars = any(isinstance(each, ast.ImportFrom) and each.names[0].name == "*" for each in nodes)
    if "__doc__" not in names | others:
        tree = _Undocumented().visit(tree)
    statements = tuple(
        _statement(each)
        for statement in tree.body
        if not _is_main_guard(statement)
        for each in _one_name_each(statement)
    )
    return _Source(statements, stars or bool(names & _DYNAMIC or others & _DYNAMIC_CLASSES))


class _Undocumented(ast.NodeTransformer):
    """Remove docstrings, and all other strings that are statements."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else node


def _is_main_guard(node: ast.stmt) -> bool:
    """Whether a statement is ``if __name__ == "__main__"``, which never runs in a plugin."""
    return isinstance(node, ast.If) and not node.orelse and ast.unparse(node.test) == "__name__ == '__main__'"


def _one_name_each(node: ast.stmt) -> list[ast.stmt]:
    """Split an import of several names, so that those of other classes do not count."""
    if isinstance(node, ast.Import):
        return [ast.Import([alias]) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [ast.ImportFrom(node.module, [alias], node.level) for alias in node.names]
    return [node]


def _statement(node: ast.stmt) -> _Statement:
    nodes = list(ast.walk(node))
    uses = {each.id for each in nodes if isinstance(each, ast.Name)}
    uses.update(*(each.names for each in nodes if isinstance(each, ast.Global)))
    texts = (each.value for each in nodes if isinstance(each, ast.Constant))
    uses.update(text for text in texts if isinstance(text, str) and text.isidentifier())
    decorators = getattr(node, "decorator_list", [])
    return _Statement(
        text=ast.unparse(node),
        defines=frozenset(_defined(node)),
        uses=frozenset(uses),
        decorators=frozenset(
            name.id for each in decorators for name in ast.walk(each) if isinstance(name, ast.Name)
        ),
        imports=tuple(found for each in nodes for found in _imports(each)),
        is_import=isinstance(node, ast.Import | ast.ImportFrom),
    )


def _defined(node: ast.stmt) -> set[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.Import() | ast.ImportFrom():
            return {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        case ast.Assign():
            targets = node.targets
        case ast.AnnAssign() | ast.AugAssign():
            targets = [node.target]
        case _:
            return set()
    return {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}


def _imports(node: ast.AST) -> list[_Import]:
    match node:
        case ast.Import():
            return [_Import(alias.name) for alias in node.names]
        case ast.ImportFrom():
            return [_Import(node.module or "", alias.name, node.level) for alias in node.names]
        case ast.Call(
            func=ast.Name(id=called) | ast.Attribute(attr=called), args=[ast.Constant(value=str(name)), *_]
        ) if called in _IMPORTERS:
            return [_Import(name.lstrip("."), level=len(name) - len(name.lstrip(".")))]
    return []
