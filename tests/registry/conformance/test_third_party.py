"""A third-party package, installed by pip, is found by its entry points and passes the checks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "tests" / "third_party" / "prmcal_example"
CHECK = """
import sys
from prmcal.registry.conformance import run_checks
from prmcal.registry.plugins import calibrators, metrics, prms, strategies
assert prms.names()["terse-qwen"] == "prmcal_example.prm:TerseQwenPRM"
plugins = [calibrators.create("my-platt"), strategies.create("two tiers"), metrics.create("absolute_error")]
plugins.append(prms.create("terse-qwen", checkpoint=sys.argv[1]))
assert all("source" in plugin.identity() for plugin in plugins)
failed = [(plugin.plugin_name, result) for plugin in plugins for result in run_checks(plugin) if not result.passed]
print(*failed, sep="\\n")
sys.exit(len(failed))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the package is installed into."""
    import shutil

    source = tmp_path_factory.mktemp("source") / "package"
    shutil.copytree(PACKAGE, source)  # Building leaves files beside the source.
    target = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(source)],
        check=True,
        timeout=600,
    )
    return target


def test_an_installed_package_is_found_and_conforms(site: Path, reward_folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CHECK, str(reward_folder)],
        env={**os.environ, "PYTHONPATH": str(site), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("module", ["prm", "platt", "tiers", "absolute"])
def test_a_plugin_is_short(module: str) -> None:
    lines = (PACKAGE / "prmcal_example" / f"{module}.py").read_text().splitlines()
    assert len([line for line in lines if line.strip()]) < 30
