"""The installed command imports nothing from the folder in which it is started."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

import prmcal.dashboard
from tests.conftest import PLUGINS, environment

PROGRAM = Path(sysconfig.get_path("scripts")) / "prmcal"
# Names of the project's folders, of modules in them, and of packages that it depends on.
NAMES = (
    *("prmcal", "registry", "harness", "db", "dashboard"),
    *("app", "charts", "data", "errors", "plugins", "text", "views"),
    *("altair", "duckdb", "pandas", "sqlalchemy", "streamlit", "torch", "yaml"),
)
MODULE = """
from pathlib import Path

Path(__file__).with_suffix(".imported").touch()
raise RuntimeError(f"{__file__} was imported")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A current folder full of modules that raise when they are imported, with a finished run in ``out``."""
    folder = tmp_path_factory.mktemp("current")
    for name in NAMES:
        (folder / f"{name}.py").write_text(MODULE)
    grid = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text()) | {
        "plugins": [os.path.relpath(PLUGINS / "synthetic.py", folder)],
        "calibrators": ["uncalibrated"],
        "calibration": {"name": "synthetic-questions", "questions": 4, "trajectories": 2, "follow_ups": 2},
        "datasets": [{"name": "synthetic-questions", "questions": 4}],
        "measurement": {"measured": 2, "follow_ups": 2, "replicates": 100},
        "scaling": {"samples": 2},
    }
    (folder / "grid.yaml").write_text(yaml.safe_dump(grid))
    done = prmcal_in(folder, "run", "grid.yaml", "--out", "out", "--workers", 1)
    assert done.returncode == 0, done.stderr
    return folder


def prmcal_in(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *map(str, arguments)], cwd=folder, env=environment(), capture_output=True, text=True, timeout=600
    )


def imported(folder: Path) -> list[str]:
    return [path.stem for path in folder.glob("*.imported")]


def test_a_run_with_its_workers_and_its_leaderboard(folder: Path) -> None:
    listed = prmcal_in(folder, "leaderboard", "out", "--table", "scaling", "--format", "json")
    assert listed.returncode == 0, listed.stderr
    assert {each["llm"] for each in json.loads(listed.stdout)} == {"weak", "strong"}
    assert imported(folder) == []


def test_the_dashboards_server(folder: Path, port: int) -> None:
    pytest.importorskip("streamlit", reason="the extra 'dashboard' is not installed")
    command = [str(PROGRAM), "dashboard", "out", "--port", str(port), "--headless"]
    with subprocess.Popen(command, cwd=folder, env=environment(), start_new_session=True) as server:
        try:
            assert answers(f"http://127.0.0.1:{port}/_stcore/health", server)
        finally:
            subprocess.run(["kill", "--", f"-{server.pid}"], check=False)
    assert imported(folder) == []


def answers(address: str, server: subprocess.Popen[bytes]) -> bool:
    end = time.monotonic() + 600
    while time.monotonic() < end and server.poll() is None:
        with suppress(OSError):
            urllib.request.urlopen(address, timeout=60).close()
            return True
        time.sleep(0.1)
    return False


def test_the_folder_that_streamlit_imports_from_holds_only_the_script() -> None:
    """Streamlit puts the folder of its script on the import path, before all others."""
    script = Path(prmcal.dashboard.__file__).parent / "script"
    assert {path.name for path in script.glob("*.py")} == {"__init__.py", "prmcal_dashboard.py"}
