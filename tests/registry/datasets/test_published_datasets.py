"""The published data sets: published files are read, and errors name the invalid line."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from prmcal import Question
from prmcal.errors import DataError
from prmcal.registry.conformance import run_checks
from prmcal.registry.contracts.dataset import content_hash
from prmcal.registry.datasets.published import AIME25
from prmcal.registry.plugins import datasets
from tests.conftest import ROOT, environment

DATA = ROOT / "tests" / "recorded"
GOOD = {"problem": "1+1?", "answer": "2"}
FILES: dict[str, dict[str, str]] = {
    "math500": {"path": "math500_test.jsonl"},
    "math-calibration": {},
    "aime24": {"path": "aime24_test.jsonl"},
    "aime25": {"path": "aime25_test.jsonl"},
    "aime24-25": {"aime24": "aime24_test.jsonl", "aime25": "aime25_test.jsonl"},
}


@pytest.fixture(scope="module", autouse=True)
def training(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Write the file of MATH's training problems, from recorded rows with a number for each repetition."""
    rows = json.loads((DATA / "math_train_problems_and_answers.json").read_text())
    path = tmp_path_factory.mktemp("math") / "train.json"
    path.write_text(json.dumps([{**row, "problem": f"{row['problem']} {n}"} for n in range(25) for row in rows]))
    FILES["math-calibration"]["path"] = str(path)


def recorded(name: str) -> Any:
    return datasets.create(name, **{key: str(DATA / file) for key, file in FILES[name].items()})


def write(path: Path, *records: Any) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


@pytest.mark.parametrize(
    ("name", "split", "size", "grading"),
    [
        ("math500", "test", 20, "symbolic"),
        ("math-calibration", "calibration", 500, "symbolic"),
        ("aime24", "test", 20, "integer"),
        ("aime25", "test", 20, "integer"),
        ("aime24-25", "test", 40, "integer"),
    ],
)
def test_published_files(name: str, split: str, size: int, grading: str) -> None:
    dataset = recorded(name)
    assert dataset.splits == (split,)
    assert len(dataset.questions(split)) == size
    assert dataset.grading == grading


@pytest.mark.parametrize("name", FILES)
def test_published_files_conform(name: str) -> None:
    assert [result for result in run_checks(recorded(name)) if not result.passed and not result.skipped] == []


def test_every_fifteenth_training_problem() -> None:
    problems = json.loads(Path(FILES["math-calibration"]["path"]).read_text())
    questions = recorded("math-calibration").questions("calibration")
    assert [question.text for question in questions] == [problem["problem"] for problem in problems[::15]]
    assert [question.id for question in questions[:3]] == ["1", "16", "31"]


def test_aime_2025_is_the_first_paper_then_the_second_as_the_hub_has_them(tmp_path: Path) -> None:
    """The rows of the hub's data set, whose answers have a sign of degrees once, from a folder in its layout."""
    table = AIME25.table
    assert (table.repository, table.configurations) == ("opencompass/AIME2025", ("AIME2025-I", "AIME2025-II"))
    rows = {
        name: [{"question": f"{name} {number}?", "answer": str(number)} for number in (3, 1, 2)]
        for name in table.configurations
    }
    rows["AIME2025-II"][1]["answer"] = "336^\\circ"
    for name, of_paper in rows.items():
        write(tmp_path / f"{name}.jsonl", *of_paper)
    files = [{"config_name": name, "data_files": [{"split": "test", "path": f"{name}.jsonl"}]} for name in rows]
    (tmp_path / "README.md").write_text(f"---\n{yaml.safe_dump({'configs': files})}---\n")
    records = replace(table, repository=str(tmp_path)).records("aime25")
    path = write(tmp_path / "both.jsonl", *(record for _, record in records))
    questions = datasets.create("aime25", path=path).questions("test")
    assert [question.text for question in questions] == [
        row["question"] for name in table.configurations for row in rows[name]
    ]
    assert [question.answer for question in questions] == ["3", "1", "2", "3", "336", "2"]


@pytest.mark.parametrize("answer", ["336^\\circ", "336^{\\circ}", "336 ^ \\circ", "336°", "336"])
def test_a_sign_of_degrees_is_no_part_of_an_aime_answer(answer: str, tmp_path: Path) -> None:
    path = write(tmp_path / "own.jsonl", {"problem": "How many degrees?", "answer": answer})
    (question,) = datasets.create("aime25", path=path).questions("test")
    assert question.answer == "336"


def test_aime_answers_are_integers_and_its_years_are_kept_apart() -> None:
    questions = recorded("aime24-25").questions("test")
    assert questions[20].answer == "70"
    assert {question.id[:5] for question in questions} == {"2024-", "2025-"}
    assert recorded("aime25").grade(questions[20], "so \\boxed{070}") == ("correct", "070")
    assert recorded("aime25").grade(questions[20], "so \\boxed{7000}") == ("incorrect", "7000")


def test_the_form_in_which_gsm8k_is_published(tmp_path: Path) -> None:
    record = {"question": "How many?", "answer": "16 - 3 = <<16-3=13>>13 eggs.\n13 + 5 = 18.\n#### 18"}
    path = write(tmp_path / "test.jsonl", record)
    assert datasets.create("jsonl", path=path).questions("test") == [Question("1", "How many?", "18")]


def test_math_as_it_was_published_has_its_answer_in_the_solution(tmp_path: Path) -> None:
    record = {"problem": "1+1?", "level": "Level 2", "type": "Algebra", "solution": "It is $\\boxed{2}$."}
    path = write(tmp_path / "train.jsonl", *[record] * 7500)
    questions = datasets.create("math-calibration", path=path).questions("calibration", 2)
    assert questions == [Question("1", "1+1?", "2", 2, "Algebra"), Question("16", "1+1?", "2", 2, "Algebra")]


def test_the_same_questions_in_another_format_are_the_same_data(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    records = [{**GOOD, "id": str(number)} for number in range(3)]
    lines = write(tmp_path / "a.jsonl", *records)
    (tmp_path / "b.json").write_text(json.dumps(records, indent=1))
    parquet.write_table(pa.Table.from_pylist(records), tmp_path / "c.parquet")
    hashes = {
        content_hash(datasets.create("math500", path=str(path)).questions("test"))
        for path in (lines, tmp_path / "b.json", tmp_path / "c.parquet")
    }
    assert len(hashes) == 1


def test_a_file_with_another_number_of_problems_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "train.jsonl", GOOD, GOOD)
    with pytest.raises(DataError, match=r"has 2 problems.*7500 training problems; use the data set 'jsonl'"):
        datasets.create("math-calibration", path=path).questions("calibration")


@pytest.mark.parametrize(
    ("name", "repository"), [("math500", "HuggingFaceH4/MATH-500"), ("aime24-25", "HuggingFaceH4/aime_2024")]
)
def test_without_file_and_hub_the_error_says_what_is_needed(name: str, repository: str, tmp_path: Path) -> None:
    code = (
        "from prmcal.registry.plugins import datasets; from prmcal.errors import DataError\n"
        f"try: datasets.create('{name}').questions('test')\n"
        "except DataError as error: print(error)"
    )
    isolated = {**environment(), "HF_HOME": str(tmp_path), "HF_DATASETS_CACHE": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=isolated, capture_output=True, text=True, check=True, timeout=600
    )
    assert f"The data set '{name}' is not on this machine" in done.stdout
    assert f"from the Hugging Face hub ({repository}" in done.stdout
    assert "Give it a file of the same questions" in done.stdout
    assert done.stdout.count("\n") == 1
