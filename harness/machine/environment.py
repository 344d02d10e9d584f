"""The package versions and the hardware, which are recorded with every run."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

from prmcal import __version__
from prmcal.harness.machine.gpus import describe_gpus

__all__ = ["hardware", "package_versions", "run_environment"]

_PACKAGES = (
    "duckdb",
    "numpy",
    "pandas",
    "pyarrow",
    "scikit-learn",
    "scipy",
    "sqlalchemy",
    "torch",
    "transformers",
)


def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that determine results, by name."""
    found = {name: _version(name) for name in _PACKAGES}
    return {"python": platform.python_version()} | {
        name: version for name, version in found.items() if version
    }


def hardware() -> dict[str, Any]:
    """Return the processor type, the operating system, the number of cores and the memory in GiB."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "cores": os.cpu_count(),
        "memory_gib": round(memory, 1),
    }


def run_environment() -> dict[str, Any]:
    """Return what is recorded with a run, by the names of the columns: prmcal_version, packages and hardware."""
    return {
        "prmcal_version": __version__,
        "packages": package_versions(),
        "hardware": {**hardware(), "gpus": describe_gpus()},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
