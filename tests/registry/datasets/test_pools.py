"""Pools: shipped ones are sound and small, samples with answers can vote, and parts of a grid have their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as parquet
import pytest
import yaml
from scipy.special import expit

from prmcal.db.queries.leaderboard import leaderboard
from prmcal.errors import DataError
from prmcal.harness.audit.audit import audit
from prmcal.harness.audit.pooled import pool_of
from prmcal.registry.contracts.data import Prefix, Sampling
from prmcal.registry.plugins import datasets, llms, prms
from prmcal.registry.reading.pools import Card, pool_path, read_pool, shipped_pools, write_pool
from prmcal.registry.strategies.best_of import best_of_n
from prmcal.steps import split_steps
from tests.conftest import Prmcal
from tests.harness.audit import files
from tests.one_process import run_here

CARD = Card("Made up.", "nowhere", "MIT", {"score": "a number"}, cost="cents")


def made(llms: int = 1, questions: int = 40, samples: int = 4, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    rows = [
        (f"llm-{llm}", f"q{question}", solution)
        for llm in range(llms)
        for question in range(questions)
        for solution in range(samples)
    ]
    table = pd.DataFrame(rows, columns=["llm", "question", "solution"])
    table["correct"] = random.random(len(table)) < 0.5
    table["score"] = random.normal(0, 1, len(table)) + 2 * table["correct"]
    table["prediction"] = np.where(table["correct"], 0, random.integers(1, 4, len(table)))
    table["cost"] = random.integers(1, 9, len(table))
    return table


@pytest.mark.parametrize("name", shipped_pools())
def test_a_shipped_pool_is_sound(name: str) -> None:
    path = shipped_pools()[name]
    card, rows = read_pool(path)
    assert card.title and card.source and card.licence
    assert not rows.duplicated(["llm", "question", "solution"]).any()
    for column in card.scores:
        assert np.isfinite(np.hstack(rows[column].to_numpy())).all()
    for _, own in rows.groupby("llm"):
        assert own.groupby("question").size().nunique() == 1


def test_shipped_pools_are_small() -> None:
    assert sum(path.stat().st_size for path in shipped_pools().values()) < 1_000_000


def test_numbers_of_programs_are_those_that_were_published_with_them() -> None:
    _, rows = read_pool(shipped_pools()["humaneval-codegen-16b"])
    rows = rows.sort_values(["question", "solution"])
    correct, scores = (rows[name].to_numpy().reshape(164, 100) for name in ("correct", "score"))
    assert correct.mean() == pytest.approx(0.228, abs=5e-4)
    assert best_of_n(scores, correct, [100]).mean() == pytest.approx(0.224, abs=5e-4)


def test_a_name_is_a_file_and_an_unknown_one_is_refused_with_those_that_there_are() -> None:
    assert pool_path("own.parquet") == "own.parquet"
    with pytest.raises(DataError, match=r"no pool 'humaneval'\. The shipped pools are .*humaneval-codegen-16b"):
        pool_path("pool:humaneval")


def test_a_file_without_a_card_and_one_that_is_no_pool_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    write_pool(path, made(), CARD)
    assert read_pool(path)[0] == CARD
    parquet.write_table(parquet.read_table(path).replace_schema_metadata({}), path)
    with pytest.raises(DataError, match="has no card"):
        read_pool(path)
    path.write_bytes(b"PAR1 and nothing")
    with pytest.raises(DataError, match="not a valid Parquet file"):
        read_pool(path)


def test_samples_with_answers_can_vote(tmp_path: Path) -> None:
    write_pool(tmp_path / "p.parquet", made(), CARD)
    given = {"path": str(tmp_path / "p.parquet")}
    (question, *_) = datasets.create("jsonl", **given).questions("test")
    ((first, *_),) = llms.create("recorded", **given).generate([Prefix(question.text)], 4, Sampling(), 0)
    rows = made()
    found = datasets.create("jsonl", **given).find_answer(first.text)
    assert found is not None and int(found.text) == rows["prediction"][0]
    assert (first.correct, first.tokens) == (rows["correct"][0], rows["cost"][0])


def test_parts_of_a_grid_have_numbers_of_their_own_and_one_leaderboard(prmcal: Prmcal, tmp_path: Path) -> None:
    parts: list[dict[str, Any]] = []
    for name, samples in (("small", 3), ("large", 6)):
        write_pool(tmp_path / f"{name}.parquet", made(samples=samples, seed=samples), CARD)
        given: dict[str, Any] = {"path": str(tmp_path / f"{name}.parquet")}
        data: dict[str, Any] = {
            "name": name,
            "plugin": "jsonl",
            "arguments": {**given, "calibration_share": 0.5},
        }
        parts.append(
            {
                "llms": [{"name": f"llm-{name}", "plugin": "recorded", "arguments": given}],
                "prms": [{"name": f"prm-{name}", "plugin": "recorded", "arguments": given}],
                "calibration": {**data, "trajectories": samples, "follow_ups": 1, "terminal": True},
                "datasets": [data],
                "measurement": {"measured": samples, "follow_ups": 2, "terminal": True, "replicates": 100},
                "scaling": {"samples": samples},
            }
        )
    strategies = ["best-of-n", {"name": "majority vote", "datasets": ["large"]}]
    grid: dict[str, Any] = {
        "name": "two",
        "calibrators": ["uncalibrated", "platt"],
        "strategies": strategies,
        "parts": parts,
    }
    grid["shards"] = {"trajectories": 6}
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump(grid))
    ready = prmcal("doctor", tmp_path / "grid.yaml")
    assert ready.returncode == 0, ready.stdout
    run_here(tmp_path / "grid.yaml", tmp_path / "out")
    scaling = leaderboard(tmp_path / "out" / "leaderboard.duckdb", "scaling").set_index(["llm", "strategy"])
    assert set(scaling["status"]) == {"done"}
    assert scaling["samples"].to_dict() == {
        ("llm-small", "best-of-n"): 3,
        ("llm-large", "best-of-n"): 6,
        ("llm-large", "majority vote"): 6,
    }
    calibration = leaderboard(tmp_path / "out" / "leaderboard.duckdb", "calibration")
    assert set(zip(calibration["llm"], calibration["prm"], calibration["dataset"], strict=True)) == {
        ("llm-small", "prm-small", "small"),
        ("llm-large", "prm-large", "large"),
    }
    assert run_here(tmp_path / "grid.yaml", tmp_path / "out").computed == 0


def test_two_parts_cannot_fill_one_cell(prmcal: Prmcal, tmp_path: Path) -> None:
    write_pool(tmp_path / "p.parquet", made(), CARD)
    given: dict[str, Any] = {"path": str(tmp_path / "p.parquet")}
    data: dict[str, Any] = {
        "name": "data",
        "plugin": "jsonl",
        "arguments": {**given, "calibration_share": 0.5},
    }
    part: dict[str, Any] = {
        "llms": [{"name": "llm", "plugin": "recorded", "arguments": given}],
        "prms": [{"name": "prm", "plugin": "recorded", "arguments": given}],
        "calibration": {**data, "trajectories": 4, "follow_ups": 1, "terminal": True},
        "datasets": [data],
        "measurement": {"measured": 4, "follow_ups": 2},
        "scaling": {"samples": 4},
    }
    grid: dict[str, Any] = {
        "name": "twice",
        "calibrators": ["platt"],
        "strategies": ["best-of-n"],
        "parts": [part, part],
    }
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump(grid))
    refused = prmcal("plan", tmp_path / "grid.yaml")
    assert refused.returncode == 2
    assert "Two parts of the grid have the cell scaling/llm/prm/data/best-of-n" in refused.stderr


def test_shipped_pools_and_others_are_listed(prmcal: Prmcal, tmp_path: Path) -> None:
    listed = prmcal("pools")
    assert listed.returncode == 0, listed.stderr
    for name in shipped_pools():
        assert name in listed.stdout
    write_pool(tmp_path / "mine.parquet", made(), CARD)
    assert "mine: Made up. Licence: MIT." in prmcal("pools", tmp_path / "mine.parquet").stdout


def test_a_file_of_a_stranger_becomes_a_pool_without_texts(tmp_path: Path) -> None:
    records = [{**each, "answer": "5"} for each in files.flat()]
    (tmp_path / "scores.jsonl").write_text("\n".join(map(json.dumps, records)))
    write_pool(tmp_path / "own.parquet", pool_of(audit(tmp_path / "scores.jsonl").scored, "mine"), CARD)
    _, rows = read_pool(tmp_path / "own.parquet")
    content = (tmp_path / "own.parquet").read_bytes()
    assert b"step 0 of" not in content and b"What is" not in content
    solutions = files.solutions()
    for column, values in (("correct", "right"), ("score", "scores")):
        expected = [each[values] for each in solutions]
        assert [np.asarray(each).tolist() for each in rows[column]] == [
            pytest.approx(each, abs=1e-6) for each in expected
        ]
    errors = [audit(tmp_path / name).measured.signed_error.value for name in ("own.parquet", "scores.jsonl")]
    assert errors[0] == pytest.approx(errors[1], abs=1e-6)


def test_steps_without_texts_are_replayed_with_their_scores_and_answers() -> None:
    given = {"path": "pool:qwen2.5-math-prm-7b"}
    _, rows = read_pool(shipped_pools()["qwen2.5-math-prm-7b"])
    question, own = rows["question"][0], rows[rows["question"] == rows["question"][0]]
    (drawn,) = llms.create("recorded", **given).generate([Prefix(question)], 4, Sampling(), 0)
    steps = [tuple(split_steps(each.text)) for each in drawn]
    prm = prms.create("recorded", **given, scale="probability")
    read = prm.score(question, steps)
    for logits, recorded in zip(read, own["score"], strict=True):
        assert np.isnan(logits.logit[0])
        np.testing.assert_allclose(expit(logits.logit[1:]), np.clip(recorded, 1e-7, 1 - 1e-7), rtol=1e-4)
    assert [each.correct for each in drawn] == own["correct"].tolist()
