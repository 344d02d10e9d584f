"""What all tests share: paths, the settings of property tests, and a runner for the command line."""

from __future__ import annotations

import atexit
import gc
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import forked
from tests.shared import made_once

os.environ.setdefault("OMP_NUM_THREADS", "1")  # test files run side by side, one per core
if "PRMCAL_TESTS" not in os.environ:  # Processes of xdist share one folder, so that nothing of the user changes.
    os.environ |= {"PRMCAL_TESTS": "1", "XDG_CACHE_HOME": tempfile.mkdtemp(prefix="prmcal-tests-")}
    atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)

ROOT = Path(__file__).parents[1]
PLUGINS = ROOT / "tests" / "plugins"
EXAMPLE_PACKAGE = ROOT / "examples" / "prmcal-curves"

# Files that take minutes begin first, so that no core is idle while the last one runs.
LONGEST = (
    "test_documentation.py",
    "test_nano_grid.py",
    "test_published_grid.py",
    "test_nano_models.py",
    "test_report.py",
    "test_interrupted.py",
    "test_accessibility.py",
    "test_folders.py",
    "test_run.py",
    "test_wheel.py",
    "test_context.py",
    "test_site.py",
    "test_table.py",
    "test_pages.py",
)

if importlib.util.find_spec("hypothesis"):  # the environment of the tests of vLLM lacks it
    from hypothesis import HealthCheck, settings

    settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any machine")

WITH_VLLM = importlib.util.find_spec("vllm") is not None
if not WITH_VLLM:
    forked.fork_workers()

Prmcal = Callable[..., "subprocess.CompletedProcess[str]"]


def command(*arguments: object) -> list[str]:
    """The command line of ``prmcal`` as a user's shell would run it."""
    return [sys.executable, "-m", "prmcal", *map(str, arguments)]


def environment() -> dict[str, str]:
    """The environment of a subprocess without a model hub."""
    return {**os.environ, "HF_HUB_OFFLINE": "1"}


def environment_with_example(folder: Path) -> dict[str, str]:
    """The environment of a subprocess in which the example of a package of plugins is installed, into a folder."""
    source, site = folder / "source", folder / "site"
    shutil.copytree(EXAMPLE_PACKAGE, source)  # Building leaves files beside the source.
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, "--target", site, source], check=True)
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    return environment() | {"PYTHONPATH": os.pathsep.join(paths)}


def pytest_configure(config: pytest.Config) -> None:
    """Start what the processes of pytest-xdist fork from."""
    if config.getoption("numprocesses", None) and "PYTEST_XDIST_WORKER" not in os.environ and not WITH_VLLM:
        forked.share()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, all else in its order."""
    items.sort(key=lambda item: item.path.name not in LONGEST)


def pytest_collection_finish() -> None:
    """What all test files have imported stays, so that the collector need not walk through it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the run that tests/db/factory.py describes. Tests must not write to it."""
    from tests.db import factory

    return made_once(tmp_path_factory, "run", factory.build)


@pytest.fixture
def copied_run(small_run: Path, tmp_path: Path) -> Path:
    """A copy of the small run, for tests that change it."""
    return Path(shutil.copytree(small_run, tmp_path / "copied-run"))


@pytest.fixture(scope="session")
def prmcal() -> Prmcal:
    """Run ``prmcal`` in a process of its own, with some variables, in the current folder or in another one.

    The exit code and both streams are in the result.
    """

    def run(*arguments: object, folder: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        return forked.run_command(list(map(str, arguments)), environment() | variables, folder or Path.cwd())

    return run
