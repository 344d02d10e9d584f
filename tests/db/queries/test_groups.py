"""Values by a field of the questions: a file with shuffled options in English and numbers in German, to the board."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from prmcal.db.queries.groups import MACRO, MICRO, by_group, grouping_fields
from prmcal.db.queries.leaderboard import leaderboard
from prmcal.errors import PrmcalError
from prmcal.harness.cli.leaderboard import render_leaderboard
from prmcal.registry.contracts.dataset import content_hash
from prmcal.registry.plugins import datasets
from tests.one_process import run_here


def questions() -> list[dict[str, Any]]:
    random = np.random.default_rng(5)
    rows = list[dict[str, Any]]()
    for number in range(48):
        german = number % 3 == 0
        right = random.random(4) < (0.3 if german else 0.7)
        row: dict[str, Any] = {"id": f"q{number}", "subject": ("algebra", "prices")[number % 2], "year": 1900 + number}
        if german:
            row |= {"question": f"Was kostet Ware {number}?", "answer": f"{number}.5", "language": "German"}
            texts = [f"Ich rechne.\n\nDie Antwort lautet {number + (not ok)},5 Euro." for ok in right]
        else:
            row |= {"question": f"Which is {number}?", "answer": "B", "options": ["1", str(number + 5), "3"]}
            row["language"] = "English"
            texts = [f"I look.\n\nThe answer is {'(B)' if ok else 'C'}." for ok in right]
        logits = [[round(float(random.normal(1.0 if ok else 0.0)), 3)] for ok in right]
        rows.append({**row, "solutions": texts, "logits": logits})
    return rows


def answered(exam: Any) -> Iterator[dict[str, Any]]:
    """Yield the solutions of a student who reads the options in their new order, and names their new letters."""
    rows = {row["id"]: row for row in questions()}
    for question in (*exam.questions("calibration"), *exam.questions("test")):
        row = rows[question.id]
        old = dict(zip(row.get("options", ()), "ABC", strict=False))
        letters = {ord(old[text]): letter for text, letter in zip(question.options, "ABC", strict=False)}
        texts = [text.translate(letters) for text in row["solutions"]]
        yield {"question": question.text, "solutions": texts, "logits": row["logits"]}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("groups")
    path = folder / "exam.jsonl"
    path.write_text("\n".join(map(json.dumps, questions())))
    arguments = {"path": str(path), "calibration_share": 0.5, "shuffle_options": 3}
    data = {"name": "exam", "plugin": "jsonl", "arguments": arguments}
    (folder / "student.jsonl").write_text("\n".join(map(json.dumps, answered(datasets.create("jsonl", **arguments)))))
    recorded = {"path": str(folder / "student.jsonl"), "solutions": "solutions"}
    measured = {"follow_ups": 4, "terminal": True}
    grid = {
        "name": "groups",
        "seed": 1,
        "llms": [{"name": "student", "plugin": "recorded", "arguments": {**recorded, "one_step": True}}],
        "prms": [{"name": "noise", "plugin": "recorded", "arguments": {**recorded, "logits": "logits"}}],
        "calibrators": ["uncalibrated", "temperature"],
        "calibration": {**data, "trajectories": 4, **measured},
        "datasets": [data],
        "strategies": ["pass@1"],
        "measurement": {"measured": 4, **measured, "bins": 5, "replicates": 100},
        "scaling": {"samples": 4},
        "shards": {"questions": 50, "trajectories": 4},
    }
    (folder / "grid.yaml").write_text(yaml.safe_dump(grid))
    run_here(folder / "grid.yaml", folder / "out")
    return folder / "out"


def groups(run: Path, field: str) -> pd.DataFrame:
    return by_group(run / "leaderboard.duckdb", field, calibrator=["temperature"]).set_index("group")


def test_groups_add_up_to_the_leaderboard(run: Path) -> None:
    table = groups(run, "language")
    assert list(table.index) == ["English", "German", MICRO, MACRO]
    rows = leaderboard(run / "leaderboard.duckdb", "calibration").set_index("calibrator")
    for end in ("", "_low", "_high"):
        for ours, metric, calibrator in (
            ("brier_after", "brier_corrected", "temperature"),
            ("brier_before", "brier_corrected", "uncalibrated"),
            ("error_after", "signed_error", "temperature"),
        ):
            assert table.loc[MICRO, ours + end] == pytest.approx(rows.loc[calibrator, metric + end])
    assert table.loc["English", "questions"] + table.loc["German", "questions"] == table.loc[MICRO, "questions"]
    assert table.loc[MACRO, "accuracy"] == pytest.approx(table["accuracy"].iloc[:2].mean())
    assert (table["accuracy_low"] < table["accuracy"]).all() and (table["accuracy"] < table["accuracy_high"]).all()


def test_a_group_has_the_answers_of_its_questions(run: Path) -> None:
    tested = {question.id for question in exam(run).questions("test")}
    right = [
        ("(B)" in text) if row["language"] == "English" else f" {row['answer'].replace('.', ',')} " in text
        for row in questions()
        for text in row["solutions"]
        if row["id"] in tested and row["subject"] == "prices"
    ]
    assert groups(run, "subject").loc["prices", "accuracy"] == pytest.approx(np.mean(right))


def test_the_board_by_a_field(run: Path) -> None:
    text = render_leaderboard(run, filters={"calibrator": ["temperature"]}, by="language", width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert "exam, student, noise, temperature" in text and "German" in text and "(macro)" in text
    assert grouping_fields(run / "leaderboard.duckdb") == ["subject", "language"]  # A field of 48 years groups nothing.
    with pytest.raises(PrmcalError, match=r"'year'\. Fields with several values: subject, language"):
        render_leaderboard(run, by="year")


def test_fields_belong_to_no_key(run: Path) -> None:
    read = exam(run).questions("test")
    assert dict(read[0].fields)["language"] in ("English", "German")
    assert content_hash(read) == content_hash([replace(question, fields=()) for question in read])


def exam(run: Path) -> Any:
    return datasets.create("jsonl", path=str(run.parent / "exam.jsonl"), calibration_share=0.5)
