"""Texts that are in the folder of a run are not sampled again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from prmcal.harness.planning.planner import build_plan
from prmcal.harness.planning.reading import read_grid
from tests.conftest import PLUGINS
from tests.one_process import run_here


def run(folder: Path, **changes: Any) -> None:
    data = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text())
    few = {"name": "synthetic-questions", "questions": 10}
    long = {"name": "long", "plugin": "synthetic-questions", "arguments": {"longest": 12}, "questions": 8}
    small = {"llms": data["llms"][:1], "calibrators": ["uncalibrated"], "strategies": ["pass@1"]}
    small |= {"calibration": few | {"trajectories": 2, "follow_ups": 2}, "datasets": [few, long]}
    small |= {"measurement": {"measured": 2, "follow_ups": 2, "replicates": 100}, "scaling": {"samples": 8}}
    (folder / "grid.yaml").write_text(yaml.safe_dump({**data, **small, **changes}))
    assert run_here(folder / "grid.yaml", folder / "out", drop_cells=True).failed_cells == 0


def samples(folder: Path) -> dict[Path, int]:
    """The number of samples of each artifact of an LLM."""
    artifacts = folder / "out" / "artifacts"
    manifests = [*artifacts.glob("rollout/*/artifact.json"), *artifacts.glob("follow_ups/*/artifact.json")]
    return {path: json.loads(path.read_text())["samples"] for path in manifests}


def texts(paths: list[Path]) -> pd.DataFrame:
    tables = [pd.read_parquet(path.parent / "texts.parquet") for path in paths if "rollout" in path.parts]
    return pd.concat(tables).sort_values(["request", "trajectory"], ignore_index=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    run(folder)
    return folder


def test_shards_of_another_size_take_over_all_texts(folder: Path) -> None:
    before = samples(folder)
    run(folder, shards={"questions": 4, "trajectories": 8})
    added = {path: count for path, count in samples(folder).items() if path not in before}
    assert added and not any(added.values())
    keys = ["request", "trajectory"]
    first, second = (texts(list(paths)).drop_duplicates(keys) for paths in (before, added))
    both = first.merge(second, on=keys, suffixes=("", "_again"))
    assert len(both) == len(second) and both["text"].equals(both["text_again"])


def test_a_question_of_two_data_sets_is_sampled_once(folder: Path) -> None:
    repeated = build_plan(read_grid(folder / "grid.yaml")).repeated
    assert repeated > 0
    drawn = texts(list(samples(folder)))
    assert drawn.groupby(["request", "trajectory"])["text"].nunique().max() == 1
    rollouts = sum(count for path, count in samples(folder).items() if "rollout" in path.parts)
    assert rollouts == len(drawn.drop_duplicates(["request", "trajectory"])) < len(drawn)
    log = (folder / "out" / "run.log").read_text()
    assert f"which is sampled once: {repeated}" in log
