"""``import prmcal``: small, lazy, and the only name that is installed."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import prmcal
from tests.conftest import ROOT


def python(code: str, folder: Path) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True, timeout=600
    ).stdout.strip()


def test_type_checkers_see_the_names_that_the_package_has() -> None:
    stub = (ROOT / "src" / "prmcal" / "__init__.pyi").read_text(encoding="utf-8")
    names = set(re.findall(r"^from (\S+) import (\w+) as \2$", stub, flags=re.MULTILINE))
    assert names == {(module, name) for name, module in prmcal._HOME.items()}


def test_every_public_name_resolves() -> None:
    assert all(getattr(prmcal, name) is not None for name in prmcal.__all__)
    with pytest.raises(AttributeError, match="module 'prmcal' has no attribute 'Nothing'"):
        prmcal.Nothing  # type: ignore[attr-defined]  # noqa: B018


def test_importing_the_face_imports_nothing_but_the_standard_library(tmp_path: Path) -> None:
    code = "import sys; before = set(sys.modules); import prmcal; print(*set(sys.modules) - before)"
    loaded = {name.partition(".")[0] for name in python(code, tmp_path).split()}
    assert loaded <= {"prmcal", *sys.stdlib_module_names}


def test_the_version_is_the_same_everywhere(tmp_path: Path) -> None:
    assert metadata.version("prmcal") == prmcal.__version__
    assert python("import prmcal; print(prmcal.__version__)", tmp_path) == prmcal.__version__
    shown = subprocess.run(
        [sys.executable, "-m", "prmcal", "--version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.strip() == f"prmcal {prmcal.__version__}"


def test_the_changelog_has_the_released_versions_and_what_is_unreleased() -> None:
    heads = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert heads[0] == "Unreleased"
    assert [re.sub(r" \(\d{4}-\d{2}-\d{2}\)$", "", head) for head in heads[1:]] == [
        prmcal.__version__,
        "0.1.0",
    ]
