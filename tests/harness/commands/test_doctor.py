"""``prmcal doctor``: what is installed, and what a grid still needs with what to do about it."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import PLUGINS, ROOT, Prmcal

READY: dict[str, Any] = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text())


@pytest.fixture
def needy(tmp_path: Path) -> Path:
    """A grid that lacks a model, a recording, a key and a data set."""
    keyed = {
        "base_url": "http://localhost:1/v1",
        "model": "m",
        "chat_template": "qwen-2.5",
        "key_variable": "NO_SUCH_KEY",
    }
    grid = {
        **READY,
        "llms": [
            READY["llms"][0],
            {"name": "near", "plugin": "transformers", "arguments": {"checkpoint": "nano:weak"}},
            {"name": "far", "plugin": "transformers", "arguments": {"checkpoint": "some-org/some-model-8b"}},
            {"name": "gone", "plugin": "recorded", "arguments": {"path": "gone.jsonl"}},
            {"name": "served", "plugin": "openai", "arguments": keyed},
        ],
        "prms": [
            *READY["prms"],
            {
                "name": "spread",
                "plugin": "qwen-vllm",
                "arguments": {"checkpoint": "some-org/PRM-72B", "tensor_parallel": 4},
            },
        ],
        "calibrators": ["isotonic", "quantile-lora"],
        "datasets": [{"name": "own", "plugin": "jsonl", "arguments": {"path": "nowhere.jsonl"}}],
    }
    path = tmp_path / "grid.yaml"
    path.write_text(yaml.safe_dump(grid))
    return path


def test_a_grid_that_has_all_it_needs(prmcal: Prmcal) -> None:
    done = prmcal("doctor", PLUGINS / "synthetic.yaml", "--plugin", PLUGINS / "synthetic.py")
    assert done.returncode == 0, done.stderr
    assert "transformers" in done.stdout
    assert "GPU" in done.stdout
    lines = done.stdout.partition("grid synthetic")[2].splitlines()
    for name in ("weak", "verifier", "isotonic", "long", "best-of-n"):
        assert any(f" {name} " in line and line.endswith("ready") for line in lines), name


def test_the_packages_are_those_that_the_project_names(prmcal: Prmcal) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [(each, "") for each in project["dependencies"]]
    for extra, requirements in project["optional-dependencies"].items():
        named += [(each, extra) for each in requirements if extra != "dev"]
    expected = {(re.split(r"[<>=[]", each)[0], extra) for each, extra in named}
    table = prmcal("doctor").stdout.split("\n\n")[1].splitlines()[2:]
    shown = [line.replace("not installed", "absent").split() for line in table]
    assert {(row[0], row[2] if len(row) > 2 else "") for row in shown} == expected


def test_what_is_missing_and_what_to_do(prmcal: Prmcal, needy: Path) -> None:
    done = prmcal("doctor", needy, "--plugin", PLUGINS / "synthetic.py")
    assert done.returncode == 4
    rows, *needs = done.stdout.partition("grid synthetic")[2].split("\n1. ")
    state = {line.split()[1]: line for line in rows.splitlines() if len(line.split()) > 2}
    assert state["weak"].endswith("ready")
    assert state["near"].endswith("ready")
    numbered = [" ".join(each.split()) for each in re.split(r"\n(?=\d+\. )", "1. " + needs[0])]
    for name, need in {
        "far": "some-org/some-model-8b is not on this machine: hf download some-org/some-model-8b",
        "gone": "There is no recording gone.jsonl",
        "served": "NO_SUCH_KEY is not set: export NO_SUCH_KEY=",
        "own": "nowhere.jsonl cannot be read",
        "spread": "some-org/PRM-72B is not on this machine",
    }.items():
        (number,) = [line.partition(".")[0] for line in numbered if need in line]
        assert number in state[name].partition("needs ")[2].split(", "), (name, state[name])
    said = " ".join(done.stdout.split())
    assert "The package vllm is not installed: pip install '.[vllm]' in a clone of prmcal" in said or _has_vllm()
    assert "16 GB" in state["far"]
    assert "144 GB on 4 GPUs" in state["spread"]
    assert "Traceback" not in done.stdout + done.stderr


def _has_vllm() -> bool:
    return importlib.util.find_spec("vllm") is not None
