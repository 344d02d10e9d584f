"""What a run ran on: versions of the packages and the machine."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

__all__ = ["hardware", "package_versions", "prmcal_version"]

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


def prmcal_version() -> str:
    """The installed version, or ``unknown`` in a checkout that is not installed."""
    return _version("prmcal") or "unknown"


def package_versions() -> dict[str, str]:
    """Versions of the packages that decide results, by name."""
    found = {name: _version(name) for name in _PACKAGES}
    return {"python": platform.python_version()} | {
        name: version for name, version in found.items() if version
    }


def hardware() -> dict[str, Any]:
    """Processor, cores, operating system and memory in GiB."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "cores": os.cpu_count(),
        "memory_gib": round(memory, 1),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
