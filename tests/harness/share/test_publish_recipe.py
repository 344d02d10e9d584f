"""The results repository: its workflows run as a shell would, on good, forged and meddling pull requests."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import prmcal
from prmcal.errors import StorageError
from prmcal.harness.site.publishing import write_recipe
from tests.conftest import PLUGINS, Prmcal, environment
from tests.served_run import GRID

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

HONEST, FORGER = "Ada Example", "Mallory"
SMALL: dict[str, Any] = GRID | {
    "name": "small",
    "prms": [
        {"name": "nano-prm", "plugin": "qwen", "arguments": {"checkpoint": "nano:prm", "dtype": "float32"}}
    ],
    "calibrators": ["uncalibrated", "isotonic"],
    "strategies": ["pass@1", "best-of-n"],
}


class Forge:
    """A host of Git repositories with the results repository, and a machine that runs its workflows."""

    def __init__(self, root: Path) -> None:
        self.root, self.work, self.origin = root, root / "work", root / "origin.git"
        program = root / "bin" / "prmcal"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m prmcal "$@"\n')
        program.chmod(0o755)
        git = {
            f"GIT_{who}_{what}": "a@b.example"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        self.environment = {
            **environment(),
            **git,
            "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        }
        write_recipe(self.work)
        self.git("init", "-q", "-b", "main")
        self.commit("The recipe")
        subprocess.run(["git", "clone", "-q", "--bare", self.work, self.origin], check=True)
        self.git("remote", "add", "origin", str(self.origin))

    def git(self, *arguments: str, folder: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder or self.work,
            env=self.environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def commit(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "-q", "-m", message)

    def open_pull_request(self, number: int, files: dict[str, Path]) -> None:
        """Push a branch with these files to the place where the host keeps pull requests."""
        self.git("checkout", "-q", "-B", f"branch-{number}", "main")
        for name, source in files.items():
            (self.work / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, self.work / name)
        self.commit(f"Pull request {number}")
        self.git("push", "-q", "--force", "origin", f"HEAD:refs/pull/{number}/head")
        self.git("checkout", "-q", "main")

    def merge_pull_request(self, number: int) -> None:
        self.git("merge", "-q", f"branch-{number}")
        self.git("push", "-q", "origin", "main")

    def run(self, workflow: str, number: int = 0) -> tuple[str, str, Path]:
        """Run the steps of a workflow in a fresh copy of the main branch.

        Returns the name of the step that failed, or nothing, what it printed, and the copy.
        """
        copy = self.root / f"{workflow}-{number}-{len(list(self.root.iterdir()))}"
        subprocess.run(["git", "clone", "-q", self.origin, copy], check=True)
        text = (copy / ".github" / "workflows" / f"{workflow}.yml").read_text()
        known = {"github.event.pull_request.number": str(number), "github.repository": "org/results"}
        (job,) = yaml.safe_load(text)["jobs"].values()
        for step in job["steps"]:
            if "run" not in step or step["name"] == "Install prmcal":
                continue
            given = {
                name: re.sub(r"\$\{\{ (.*?) \}\}", lambda found: known[found[1]], value)
                for name, value in step.get("env", {}).items()
            }
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=copy,
                env={**self.environment, **given},
                capture_output=True,
                text=True,
            )
            if done.returncode:
                return step["name"], done.stdout + done.stderr, copy
        return "", "", copy


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "run"
    prmcal.run(SMALL, folder, workers=1)
    return folder


@pytest.fixture(scope="module")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Forge:
    return Forge(tmp_path_factory.mktemp("forge"))


@pytest.fixture(scope="module")
def bundles(run: Path, prmcal: Prmcal, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A good bundle, and one whose Brier scores were halved with all hashes made to fit."""
    out = tmp_path_factory.mktemp("bundles")
    forged = out / "forged"
    shutil.copytree(run, forged)
    for artifact in (forged / "artifacts" / "calibration_metrics").iterdir():
        schema = pq.read_schema(artifact / "results.parquet")
        table = pd.read_parquet(artifact / "results.parquet")
        table.loc[table["metric"].str.startswith("brier"), ["value", "low", "high"]] /= 2
        pq.write_table(
            pa.Table.from_pandas(table, schema, preserve_index=False), artifact / "results.parquet"
        )
        manifest = json.loads((artifact / "artifact.json").read_text())
        content = (artifact / "results.parquet").read_bytes()
        manifest["files"]["results.parquet"] = [len(content), hashlib.sha256(content).hexdigest()]
        (artifact / "artifact.json").write_text(json.dumps(manifest))
    found = {}
    for name, folder, submitter in (("good", run, HONEST), ("forged", forged, FORGER)):
        found[name] = out / f"{name}.prmcal"
        done = prmcal(
            "submit", folder, "--out", found[name], "--submitter", submitter, "--licence", "CC-BY-4.0"
        )
        assert done.returncode == 0, done.stderr
    return found


def test_a_new_repository_publishes_nothing_and_does_not_fail(tmp_path: Path) -> None:
    failed, printed, copy = Forge(tmp_path).run("publish")
    assert not failed, printed
    assert not (copy / "leaderboard").exists()
    assert not (copy / "site").exists()


def test_a_good_pull_request_is_verified_merged_and_published(forge: Forge, bundles: dict[str, Path]) -> None:
    forge.open_pull_request(1, {"submissions/ada.prmcal": bundles["good"]})
    failed, printed, copy = forge.run("verify", 1)
    assert not failed, printed
    record = json.loads((copy / "records" / "ada.json").read_text())
    assert (record["tier"], record["passed"], record["verified_by"]) == (
        "consistent",
        True,
        "CI of org/results",
    )
    forge.merge_pull_request(1)
    failed, printed, copy = forge.run("publish")
    assert not failed, printed
    site = (copy / "site" / "index.html").read_text()
    assert HONEST in site
    assert "consistent by CI of org/results" in site
    assert list((copy / "every-eval-ever" / "data").rglob("*.json"))


def test_a_forged_pull_request_is_found_by_its_numbers(forge: Forge, bundles: dict[str, Path]) -> None:
    forge.open_pull_request(2, {"submissions/mallory.prmcal": bundles["forged"]})
    failed, printed, copy = forge.run("verify", 2)
    assert failed == "Verify", printed
    record = json.loads((copy / "records" / "mallory.json").read_text())
    assert not record["passed"]
    assert any(not check["passed"] and check["cells"] for check in record["checks"])


@pytest.mark.parametrize(
    "name",
    [".github/workflows/verify.yml", "verifications/ada.json", "submissions/run me.prmcal", "conftest.py"],
)
def test_a_pull_request_that_changes_anything_else_is_refused(
    forge: Forge, bundles: dict[str, Path], name: str
) -> None:
    forge.open_pull_request(3, {"submissions/eve.prmcal": bundles["forged"], name: PLUGINS / "synthetic.py"})
    failed, printed, _ = forge.run("verify", 3)
    assert failed == "Read the pull request"
    assert "may only add files submissions/NAME.prmcal" in printed


def test_no_file_of_a_pull_request_is_run(forge: Forge) -> None:
    text = (forge.work / ".github" / "workflows" / "verify.yml").read_text()
    workflow = yaml.safe_load(text)
    assert workflow[True] == "pull_request"  # YAML reads the key `on` as true.
    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets." not in text
    (job,) = workflow["jobs"].values()
    checkout = next(step["with"] for step in job["steps"] if "checkout" in step.get("uses", ""))
    assert checkout["ref"] == "${{ github.event.pull_request.base.sha }}"
    # What a stranger names never stands in a command; it comes as a variable.
    assert not any("${{" in step.get("run", "") for step in job["steps"])


def test_a_file_that_exists_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(StorageError, match="exists already"):
        write_recipe(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
    (tmp_path / "README.md").unlink()
    assert write_recipe(tmp_path) == write_recipe(tmp_path)
