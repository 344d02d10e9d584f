"""A grid on solutions that are known to be right or wrong: no answers, no grader, costs of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from prmcal.db.queries.health import health
from prmcal.db.queries.leaderboard import leaderboard
from tests.conftest import Prmcal

QUESTIONS, SOLUTIONS = 24, 4


def solutions() -> list[dict[str, Any]]:
    """Rows as an agent leaves them: a task, a reward, seconds, and the scores of three steps."""
    random = np.random.default_rng(3)
    rows = []
    for task in range(QUESTIONS):
        for _ in range(SOLUTIONS):
            right = bool(random.random() < 0.5)
            scores = (random.normal(0.0, 0.5, 3) + np.array([0.3, 0.6, 1.2]) * (1 if right else -1)).round(3)
            rows.append(
                {
                    "task": f"task {task}",
                    "steps": [f"{step} {random.integers(10**9)}." for step in ("Look", "Edit", "Test")],
                    "reward": float(right),
                    "seconds": int(random.integers(100, 999)),
                    "scores": scores.tolist(),
                }
            )
    return rows


@pytest.fixture(scope="module")
def finished(prmcal: Prmcal, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("given")
    (folder / "agents.jsonl").write_text("\n".join(map(json.dumps, solutions())))
    file = {
        "path": str(folder / "agents.jsonl"),
        "fields": {"label": "reward", "cost": "seconds", "score": "scores"},
    }
    data = {"name": "tasks", "plugin": "jsonl", "arguments": {**file, "calibration_share": 0.5}}
    grid = {
        "name": "given",
        "seed": 1,
        "llms": [{"name": "agent", "plugin": "recorded", "arguments": file}],
        "prms": [{"name": "verifier", "plugin": "recorded", "arguments": file}],
        "calibrators": ["uncalibrated", "platt"],
        "calibration": {**data, "trajectories": 4, "follow_ups": 1, "terminal": True},
        "datasets": [data],
        "strategies": ["pass@1", "majority vote", "best-of-n"],
        "measurement": {"measured": 4, "follow_ups": 1, "terminal": True, "bins": 5, "replicates": 100},
        "scaling": {"samples": 4},
        "shards": {"questions": 50, "trajectories": 4},
    }
    (folder / "grid.yaml").write_text(yaml.safe_dump(grid))
    done = prmcal("run", folder / "grid.yaml", "--out", folder / "out", "--workers", 1)
    assert done.returncode == 3, done.stderr  # The vote.
    assert "Not possible: the solutions have no answers" in " ".join(done.stderr.split())
    return folder / "out"


def test_outcomes_are_those_of_the_file(finished: Path) -> None:
    scaling = leaderboard(finished / "leaderboard.duckdb", "scaling").set_index("strategy")
    assert dict(scaling["status"]) == {"pass@1": "done", "best-of-n": "done", "majority vote": "failed"}
    calibration = leaderboard(finished / "leaderboard.duckdb", "calibration").set_index("calibrator")
    assert set(calibration["status"]) == {"done"}
    tested = int(scaling.loc["pass@1", "questions"])
    assert set(calibration["rows"]) == {tested * SOLUTIONS * 3}  # The bare question has no score.
    rows = {each["task"]: [] for each in solutions()}  # type: dict[str, list[dict[str, Any]]]
    for each in solutions():
        rows[each["task"]].append(each)
    from prmcal.registry.plugins import datasets

    data = datasets.create(
        "jsonl", path=str(finished.parent / "agents.jsonl"), fields={"label": "reward"}, calibration_share=0.5
    )
    own = [rows[each.text] for each in data.questions("test")]
    assert scaling.loc["pass@1", "accuracy"] == pytest.approx(np.mean([[s["reward"] for s in q] for q in own]))
    best = np.mean([max(q, key=lambda s: s["scores"][-1])["reward"] for q in own])
    assert scaling.loc["best-of-n", "accuracy"] == pytest.approx(best)
    seconds = np.mean([[s["seconds"] for s in q] for q in own])
    assert scaling.loc["best-of-n", "generated_tokens"] == pytest.approx(SOLUTIONS * seconds)
    brier = np.mean([(1 / (1 + np.exp(-score)) - s["reward"]) ** 2 for q in own for s in q for score in s["scores"]])
    assert calibration.loc["uncalibrated", "brier"] == pytest.approx(brier, abs=1e-6)


def test_no_finding_is_about_answers(finished: Path) -> None:
    checks = health(finished / "leaderboard.duckdb", all_checks=True)
    assert all(each.count == 0 for each in checks if each.check == "unread")
    assert {each.check for each in checks if each.check.startswith("read: ")} == {"read: given"}
