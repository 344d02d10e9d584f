"""The source code and the arguments of plugins.

The hash of the source code is part of the job keys. The whole file of a plugin counts, with all local modules that it
imports directly or through others. Comments, docstrings, the layout and ``if __name__ == "__main__"`` do not count. A
package that is installed counts with its name and version. A module is local if it belongs neither to Python nor to an
installed package. A package that is installed as editable is local. Two kinds of files do not count: modules whose
names are computed at run time, and files that are not Python.

The arguments of the constructor are validated by its annotations. An annotation gives the type of an argument and,
through pydantic, its range: ``Annotated[int, Field(ge=1)]``. A `description` in the ``Field`` replaces pydantic's error
message on the argument.
"""

import ast
import hashlib
import importlib.util
import inspect
import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import metadata
from importlib.machinery import PathFinder
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic.fields import FieldInfo

from prmcal.errors import InvalidArgumentsError, InvalidPluginError
from prmcal.registry.messages import meant, shown

_INSTALLED = {"site-packages", "dist-packages"}
_IMPORTERS = {"__import__", "import_module"}


class _Module(NamedTuple):
    """A local module, by its full name. Only the name of a plugin file that was given with ``--plugin`` is free."""

    name: str
    path: Path

    @property
    def package(self) -> str:
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


def source_hash(code: type | Callable[..., Any]) -> str:
    """Hash the code of a class or a function outside prmcal, with its imports. Return 16 hexadecimal digits.

    The hashes do not depend on the folder of the files. Raises an InvalidPluginError if it is not in a file, or a local
    module is not valid Python.
    """
    modules = _modules_of(code)
    local = [module for module in modules if not _distribution(module)]
    texts = [["" if module in local else module.name, _code_and_imports(module)[0]] for module in _with_imports(local)]
    installed = {_distribution(module) for module in modules} - {""}
    content = json.dumps([sorted(texts), sorted(installed)])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def local_files(plugin: Path | type) -> dict[str, Path]:
    """Return the local modules of a plugin file or of a class: its own, and all that it imports directly or indirectly.

    The result has the absolute path of each module by its full name, such as ``helpers.text``. Packages are included
    with their ``__init__.py``. The first entry of a plugin file is the file itself, under its name without ``.py``.
    Raises an InvalidPluginError if the class is not in a file, or a module is not valid Python.
    """
    if isinstance(plugin, Path):
        start = [_Module(plugin.stem, plugin.resolve())]
    else:
        start = [module for module in _modules_of(plugin) if not _distribution(module)]
    return {module.name: module.path for module in _with_imports(start)}


def _is_foreign(module: str) -> bool:
    """True if a module belongs neither to prmcal nor to Python."""
    top = module.partition(".")[0]
    return top != "prmcal" and (top == "__main__" or top not in sys.stdlib_module_names)


def _modules_of(code: type | Callable[..., Any]) -> list[_Module]:
    """Return the modules of a function, or of a class and its bases, without modules of prmcal and Python."""
    modules = []
    for base in code.__mro__ if isinstance(code, type) else (code,):
        if _is_foreign(base.__module__):
            try:
                modules.append(_Module(base.__module__, Path(inspect.getfile(base)).resolve()))
            except (OSError, TypeError) as error:
                raise InvalidPluginError(
                    f"{base.__qualname__} is not in a file, so its changes cannot be noticed. Write it into "
                    "a file of its own, and set --plugin to its path."
                ) from error
    return modules


def _distribution(module: _Module) -> str:
    """Return name and version of the installed package that a module belongs to; empty if it is local."""
    if not _INSTALLED & set(module.path.parts):
        return ""
    names = _distributions().get(module.name.partition(".")[0], ())
    return ", ".join(sorted(f"{name} {metadata.version(name)}" for name in set(names)))


@cache
def _distributions() -> dict[str, list[str]]:
    return dict(metadata.packages_distributions())


def _with_imports(modules: Iterable[_Module]) -> list[_Module]:
    """Return modules, the packages that contain them, and all local modules that these import."""
    module_by_path: dict[Path, _Module] = {}
    waiting = list(modules)[::-1]
    while waiting:
        module = waiting.pop()
        if module.path not in module_by_path:
            module_by_path[module.path] = module
            for name in (module.package, *_code_and_imports(module)[1]):
                with suppress(ImportError):  # A relative import that leaves the package.
                    waiting += _find(importlib.util.resolve_name(name, module.package), module.path.parent)
    return list(module_by_path.values())


def _find(name: str, beside: Path) -> Iterator[_Module]:
    """Yield a local module and the packages that contain it, outermost first, without importing anything."""
    if not name or not _is_foreign(name):
        return
    names = name.split(".")
    try:
        spec = importlib.util.find_spec(names[0])
    except (ImportError, ValueError):  # A module that was made by hand has no specification.
        spec = None
    spec = spec or PathFinder.find_spec(names[0], [str(beside)])
    for count in range(1, len(names) + 1):
        if spec is None or _INSTALLED & set(Path(spec.origin or "").parts):
            return
        if (spec.origin or "").endswith(".py"):
            yield _Module(".".join(names[:count]), Path(str(spec.origin)).resolve())
        places = list(spec.submodule_search_locations or ())
        spec = PathFinder.find_spec(".".join(names[: count + 1]), places) if places else None


def _code_and_imports(module: _Module) -> tuple[str, tuple[str, ...]]:
    """Return the code of a module without comments and docstrings, and the names of its imports."""
    try:
        return _parsed(module.path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError) as error:
        raise InvalidPluginError(f"{module.path} cannot be loaded: {type(error).__name__}: {error}") from error


@cache
def _parsed(content: bytes) -> tuple[str, tuple[str, ...]]:
    tree = ast.parse(content)
    imported = tuple(name for node in ast.walk(tree) for name in _names(node))
    code = ast.unparse(tree)
    # Docstrings count if the code reads them.
    return code if "__doc__" in code else ast.unparse(_Undocumented().visit(tree)), imported


def _names(node: ast.AST) -> list[str]:
    """Return the names of the modules that a statement may import, with leading dots if they are relative."""
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom():
            dots = "." * node.level
            start = f"{dots}{node.module}." if node.module else dots
            return [dots + (node.module or ""), *(start + alias.name for alias in node.names)]
        case ast.Call(
            func=ast.Name(id=called) | ast.Attribute(attr=called), args=[ast.Constant(value=str(name)), *_]
        ) if called in _IMPORTERS:
            return [name]
    return []


class _Undocumented(ast.NodeTransformer):
    """Remove docstrings and all other strings that are statements, and code that runs in scripts only."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        if not node.orelse and ast.unparse(node.test) == "__name__ == '__main__'":
            return None
        return self.generic_visit(node)


def arguments_model(cls: type) -> type[BaseModel]:
    """Build the model that validates the constructor arguments of a class."""
    fields: dict[str, Any] = {}
    for parameter in parameters_of(cls):
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (annotation, default)
    config = ConfigDict(strict=False, arbitrary_types_allowed=True, protected_namespaces=())
    return create_model("Arguments", __config__=config, **fields)


def documented_arguments(cls: type) -> dict[str, str]:
    """Return the texts below the fields of a class and its bases, by the constructor argument."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        texts |= _texts_below_fields(base)
    return {parameter.name: texts[parameter.name] for parameter in parameters_of(cls) if parameter.name in texts}


@cache
def _texts_below_fields(cls: type) -> dict[str, str]:
    try:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    except (OSError, TypeError, SyntaxError):  # A class that is built in, or made by a function.
        return {}
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in pairwise(getattr(definition, "body", ()))
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        if isinstance(text.value.value, str)
    }


def validate_arguments(model: type[BaseModel], plugin: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Validate arguments by the model of :func:`arguments_model`, and fill in defaults.

    The result has every argument, in the order of the constructor. `plugin` is named in error messages, such as
    "calibrator 'histogram'". Raises an InvalidArgumentsError if an argument is unknown, is missing, or has a wrong type
    or value.
    """
    fields = model.model_fields
    unknown = [name for name in arguments if name not in fields]
    if unknown:
        hint = meant(unknown[0], fields, f"It takes: {', '.join(fields) or 'none'}.")
        raise InvalidArgumentsError(f"The {plugin} has no argument '{unknown[0]}'. {hint}")
    try:
        validated = model(**arguments)
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        if name not in arguments:
            raise InvalidArgumentsError(f"The {plugin} needs the argument '{name}'.") from error
        rule = _rule(fields[name], error)
        raise InvalidArgumentsError(
            f"The '{name}' parameter of the {plugin} {rule}. Got {shown(arguments[name])} instead."
        ) from error
    return {name: getattr(validated, name) for name in fields}


def parameters_of(cls: type) -> list[inspect.Parameter]:
    """Return the constructor's parameters that a grid may set, with resolved annotations where that is possible."""
    # The fields of a dataclass may be annotated in the modules of its bases.
    names: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        names |= vars(sys.modules[base.__module__])
    try:
        parameters = list(inspect.signature(cls, globals=names, eval_str=True).parameters.values())
    except NameError:  # An annotation uses a name that is imported for type checkers only.
        parameters = [
            parameter if parameter.annotation is parameter.empty else parameter.replace(annotation=Any)
            for parameter in inspect.signature(cls).parameters.values()
        ]
    return [parameter for parameter in parameters if parameter.name not in getattr(cls, "array_arguments", ())]


def _rule(field: FieldInfo, error: ValidationError) -> str:
    """Return the rule for the first argument of an error, in the words of its description or of pydantic."""
    if field.description:
        return f"must be {field.description}"
    errors = error.errors()
    # A union has an error for each of its types.
    messages = dict.fromkeys(problem["msg"] for problem in errors if problem["loc"][0] == errors[0]["loc"][0])
    if all(message.startswith("Input should be ") for message in messages):
        return f"must be {' or '.join(message.removeprefix('Input should be ') for message in messages)}"
    return f"is invalid ({next(iter(messages)).removeprefix('Value error, ')})"
