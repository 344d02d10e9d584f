"""The wheel, built without links and used in an environment and a folder that hold nothing else; editable installs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import ROOT, environment

ROOMS = ("registry", "harness", "db", "dashboard", "grids")
SOURCES = (
    *("src", *ROOMS),
    *("pyproject.toml", "setup.py", "README.md", "LICENSE"),
)


def alone() -> dict[str, str]:
    """The environment of a subprocess that finds no other prmcal."""
    return {name: value for name, value in environment().items() if name != "PYTHONPATH"}


BUILD = "import sys, setuptools.build_meta as build; print(build.build_{kind}(sys.argv[1]))"


@dataclass(frozen=True)
class Installed:
    """An environment that holds the wheel, and the empty folder that commands run in."""

    wheel: Path
    site: Path
    program: Path
    folder: Path

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = [str(self.program), *map(str, arguments)]
        return subprocess.run(command, cwd=self.folder, env=alone(), capture_output=True, text=True, timeout=900)


def build(kind: str, source: Path, out: Path) -> Path:
    """Build a wheel or a source distribution with the project's own build backend."""
    out.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", BUILD.format(kind=kind), str(out)],
        cwd=source,
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
    )
    return out / done.stdout.splitlines()[-1]


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")}


def copied(folder: Path) -> Path:
    """A copy of the files that are built, since a build leaves files beside its source."""
    for name in SOURCES:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def without_links(folder: Path) -> Path:
    """A copy whose links are small files of text, as Git writes them on a disk that has no links."""
    links = [path for path in (copied(folder) / "src" / "prmcal").iterdir() if path.is_symlink()]
    assert links
    for path in links:
        target = str(path.readlink())
        path.unlink()
        path.write_text(target)
    return folder


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return without_links(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def distribution(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, unpacked."""
    folder = tmp_path_factory.mktemp("distribution")
    with tarfile.open(build("sdist", source, folder / "dist")) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.glob("prmcal-*")
    return unpacked


def new_environment(folder: Path, requirements: Sequence[str]) -> Path:
    """Install into a new environment, where only what prmcal depends on comes from the environment of the tests."""
    venv.create(folder, with_pip=False)
    (site,) = (folder / "lib").glob("python*/site-packages")
    # A folder that a .pth file adds has its own .pth files ignored, so the editable prmcal of the tests is not found.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
    offline = ["--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
    subprocess.run([*pip, *offline, *requirements], check=True, timeout=900)
    return site


@pytest.fixture(scope="module")
def installed(distribution: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel in an environment of its own."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel = build("wheel", distribution, folder / "dist")
    site = new_environment(folder / "venv", [str(wheel)])
    (folder / "empty").mkdir()
    return Installed(wheel, site, folder / "venv" / "bin" / "prmcal", folder / "empty")


def test_installing_adds_one_importable_name(installed: Installed) -> None:
    added = {path.name for path in installed.site.iterdir()} - {"dependencies.pth", "__pycache__"}
    assert {name for name in added if not name.endswith(".dist-info")} == {"prmcal"}


def test_a_part_that_is_missing_ends_the_build(tmp_path: Path) -> None:
    source = copied(tmp_path / "source")
    shutil.rmtree(source / "db")
    with pytest.raises(subprocess.CalledProcessError) as raised:
        build("wheel", source, tmp_path / "dist")
    said = raised.value.stderr.splitlines()[-1]
    assert said == "prmcal cannot be built without db/__init__.py. Get the whole repository."


def test_an_editable_install_without_links_reads_the_folders(tmp_path: Path) -> None:
    source = without_links(tmp_path / "source")
    new_environment(tmp_path / "venv", ["--editable", str(source)])
    grids = source / "grids"
    (grids / "mine.yaml").write_text((grids / "hello.yaml").read_text())
    program = tmp_path / "venv" / "bin" / "prmcal"
    planned = subprocess.run([program, "plan", "mine"], env=alone(), cwd=tmp_path, capture_output=True, text=True)
    assert planned.returncode == 0, planned.stderr


def test_the_metadata_says_what_it_is(installed: Installed) -> None:
    ((_, text),) = (item for item in contents(installed.wheel).items() if item[0].endswith("/METADATA"))
    lines = text.decode().splitlines()
    assert any(line.startswith("Keywords: ") for line in lines)
    assert sum(line.startswith("Classifier: ") for line in lines) >= 5


def test_every_file_of_the_packages_is_in_it_and_no_other(installed: Installed) -> None:
    shipped = {
        f"prmcal/{path.relative_to(ROOT).as_posix()}"
        for package in ("dashboard", "db", "grids", "harness", "registry")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    shipped |= {f"prmcal/{path.name}" for path in (ROOT / "src" / "prmcal").glob("*.*")}
    names = {name for name in contents(installed.wheel) if not name.startswith("prmcal-")}
    assert names == shipped


def test_the_installed_command_runs_a_shipped_grid(installed: Installed) -> None:
    (installed.folder / "math_cot_100.jsonl").symlink_to(ROOT / "tests" / "recorded" / "math_cot_100_8samples.jsonl")
    ran = installed.run("run", "recorded", "--out", "runs/small", "--limit", 2, "--workers", 1)
    assert ran.returncode == 0, ran.stderr
    shown = installed.run("leaderboard", "runs/small", "--table", "calibration", "--format", "json")
    assert "uncalibrated" in {row["calibrator"] for row in json.loads(shown.stdout)}
