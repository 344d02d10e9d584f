"""The wheel, built from the source distribution and used in an environment and a folder that hold nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
import urllib.request
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT, environment

SOURCES = (
    *("src", "registry", "harness", "db", "dashboard", "grids"),
    *("pyproject.toml", "README.md", "LICENSE"),
)
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
        return subprocess.run(
            command, cwd=self.folder, env=environment(), capture_output=True, text=True, timeout=900
        )


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


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files that are built, since a build leaves files beside its source."""
    copy = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(ROOT / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def distribution(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, unpacked."""
    folder = tmp_path_factory.mktemp("distribution")
    with tarfile.open(build("sdist", source, folder / "dist")) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.glob("prmcal-*")
    return unpacked


@pytest.fixture(scope="module")
def installed(distribution: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel in an environment of its own; only what it depends on comes from the environment of the tests."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel = build("wheel", distribution, folder / "dist")
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
    ]
    subprocess.run([*install, "--disable-pip-version-check", str(wheel)], check=True, timeout=900)
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    # A folder that a .pth file adds has its own .pth files ignored, so the editable prmcal of the tests is not found.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (folder / "empty").mkdir()
    return Installed(wheel, site, folder / "venv" / "bin" / "prmcal", folder / "empty")


def test_the_source_distribution_builds_the_same_wheel(source: Path, installed: Installed) -> None:
    direct = build("wheel", source, source / "dist")
    assert direct.name == installed.wheel.name
    assert contents(direct) == contents(installed.wheel)


def test_installing_adds_one_importable_name(installed: Installed) -> None:
    added = {path.name for path in installed.site.iterdir()} - {"dependencies.pth", "__pycache__"}
    assert {name for name in added if not name.endswith(".dist-info")} == {"prmcal"}


def test_the_wheel_is_what_is_imported(installed: Installed) -> None:
    code = "import prmcal, prmcal.harness.cli, prmcal.dashboard; print(prmcal.harness.cli.__file__)"
    python = installed.program.with_name("python")
    shown = subprocess.run(
        [python, "-c", code],
        cwd=installed.folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(shown.stdout.strip()) == installed.site / "prmcal" / "harness" / "cli" / "__init__.py"


def test_the_metadata_says_what_it_is(installed: Installed) -> None:
    ((_, text),) = (item for item in contents(installed.wheel).items() if item[0].endswith("/METADATA"))
    lines = text.decode().splitlines()
    assert any(line.startswith("Keywords: ") for line in lines)
    assert sum(line.startswith("Classifier: ") for line in lines) >= 5


def test_every_kind_of_file_is_in_it(installed: Installed) -> None:
    names = set(contents(installed.wheel))
    shipped = {f"prmcal/grids/{path.name}" for path in (ROOT / "grids").glob("*.*")}
    models = {
        f"prmcal/registry/nano/{path.relative_to(ROOT / 'registry' / 'nano').as_posix()}"
        for path in (ROOT / "registry" / "nano" / "models").rglob("*")
        if path.is_file()
    }
    pools = {f"prmcal/registry/pools/{path.name}" for path in (ROOT / "registry" / "pools").glob("*.parquet")}
    assert len(pools) > 2
    assert shipped | models | pools | {"prmcal/py.typed"} <= names
    assert not [name for name in names if name.startswith(("tests/", "prmcal/tests/", "prmcal/docs/"))]


def test_a_shipped_grid_is_planned_by_its_name(installed: Installed) -> None:
    planned = installed.run("plan", "nano")
    assert planned.returncode == 0, planned.stderr
    assert "1836 cells" in planned.stdout


def test_the_installed_command_starts_a_results_repository(installed: Installed) -> None:
    done = installed.run("publish", "--recipe", "results")
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load((installed.folder / "results" / ".github" / "workflows" / "verify.yml").read_text())


@pytest.fixture(scope="module")
def finished(installed: Installed) -> Path:
    """A small run with real models, made by the installed command."""
    grid = yaml.safe_load((ROOT / "grids" / "nano.yaml").read_text(encoding="utf-8"))
    grid |= {
        "llms": grid["llms"][:1],
        "prms": grid["prms"][:1],
        "calibrators": ["uncalibrated", "isotonic"],
        "strategies": ["pass@1", "best-of-n", "best-of-n + IAS"],
        "datasets": grid["datasets"][:1],
    }
    grid["scaling"]["samples"] = 4
    grid["calibration"] |= {"trajectories": 2, "follow_ups": 2}
    grid["measurement"] |= {"measured": 2, "follow_ups": 2, "replicates": 200}
    (installed.folder / "small.yaml").write_text(yaml.safe_dump(grid), encoding="utf-8")
    ran = installed.run("run", "small.yaml", "--out", "runs/small", "--limit", 2, "--workers", 1)
    assert ran.returncode == 0, ran.stderr
    return installed.folder / "runs" / "small"


def test_the_installed_command_runs_a_grid(installed: Installed, finished: Path) -> None:
    shown = installed.run("leaderboard", finished, "--table", "calibration", "--format", "json")
    assert {row["calibrator"] for row in json.loads(shown.stdout)} == {"uncalibrated", "isotonic"}


def test_the_installed_command_writes_a_report_and_a_site(installed: Installed, finished: Path) -> None:
    for arguments in (("report", finished, "--out", "report"), ("export", finished, "--html", "site")):
        done = installed.run(*arguments)
        assert done.returncode == 0, done.stderr
    assert (installed.folder / "report" / "README.md").stat().st_size > 0
    assert (installed.folder / "site" / "index.html").stat().st_size > 0


def test_the_installed_command_checks_a_plugin(installed: Installed) -> None:
    checked = installed.run("check", "isotonic")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_installed_command_serves_the_dashboard(installed: Installed, finished: Path, port: int) -> None:
    with (
        dashboard(installed, finished, port) as address,
        urllib.request.urlopen(address, timeout=300) as page,
    ):
        assert page.status == 200


@contextmanager
def dashboard(installed: Installed, finished: Path, port: int) -> Iterator[str]:
    command = [str(installed.program), "dashboard", str(finished), "--port", str(port), "--headless"]
    server = subprocess.Popen(
        command, cwd=installed.folder, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    address = f"http://127.0.0.1:{port}"
    end = time.monotonic() + 900
    try:
        while time.monotonic() < end and server.poll() is None:
            with suppress(OSError):
                urllib.request.urlopen(f"{address}/_stcore/health", timeout=60).close()
                break
            time.sleep(0.2)
        yield address
    finally:
        server.terminate()
        server.wait(timeout=300)
