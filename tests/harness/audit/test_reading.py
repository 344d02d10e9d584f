"""Every shape of file gives the same rows, and what can be read in two ways is an error that names both."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from prmcal.errors import DataError
from prmcal.harness.audit.audit import audit
from prmcal.harness.audit.scored import ScoredSolutions, scored_records
from prmcal.registry.reading.fields import Fields
from prmcal.registry.reading.records import read_records
from tests.conftest import ROOT
from tests.harness.audit import files

Records = list[dict[str, Any]]
DATA = ROOT / "tests" / "recorded"


def rows_of(records: Records, **fields: Any) -> ScoredSolutions:
    return scored_records([(f"row {place}", each) for place, each in enumerate(records)], "own.jsonl", Fields(**fields))


def expected(field: str) -> list[Any]:
    return [each[field] for each in files.solutions()]


@pytest.mark.parametrize("shape", [files.lists_of_steps, files.objects, files.flat, files.rows_of_steps])
def test_outcomes_and_scores_of_steps(shape: Callable[[], Records]) -> None:
    found = rows_of(shape())
    assert (found.target, found.scale.name) == ("outcome", "probability")
    assert len(found.questions) == files.QUESTIONS
    steps = expected("steps")
    assert len(found.prefixes) == sum(map(len, steps))
    scores = found.prefixes.sort_values(["question", "solution", "step"])["reward"].tolist()
    assert scores == [score for each in expected("scores") for score in each]
    assert found.solutions["label"].tolist() == [float(each) for each in expected("right")]
    assert found.prefixes["step"].min() == 1  # The bare question has no score.


def test_one_score_more_is_that_of_the_bare_question_and_null_has_none() -> None:
    record = {"question": "1+1?", "steps": ["a", "b"], "scores": [0.5, None, 0.75], "correct": True}
    found = rows_of([record])
    assert found.prefixes[["step", "score"]].to_numpy().tolist() == [[0, 0.5], [2, 0.75]]
    with pytest.raises(DataError, match=r"a solution of 2 steps has 4 scores\. There must be 2, or 3 with the bare"):
        rows_of([{**record, "scores": [0.1] * 4}])


def test_success_rates_keep_their_draws() -> None:
    tree = {
        "text": "Q",
        "mc_value": 0.5,
        "children": [{"text": "a", "mc_value": 0.25}, {"text": "b", "mc_value": 1.0, "children": []}],
    }
    record = {"question": "Q", "final_answer": "1", "reasoning_steps": tree}
    with pytest.raises(DataError, match="no prefix with both"):  # It has no scores, and says so.
        rows_of([record])
    for node in (tree, *tree["children"]):  # type: ignore[misc]
        node["score"] = 0.5
    found = rows_of([record])
    assert found.target == "success rate"
    assert found.prefixes["label"].tolist() == [0.5, 0.25, 0.5, 1.0]


def test_prefixes_with_rates_are_rows_of_their_own() -> None:
    prefixes = [("Q", 0.5), ("Q\n\na", 0.25), ("Q\n\na\n\nb", 1.0)]
    nodes = [{"solution_prefix": text, "mc_value": rate, "score": 0.5} for text, rate in prefixes]
    found = rows_of([{"question": "Q", "final_answer": "1", "reasoning_steps": nodes}])
    assert found.prefixes["label"].tolist() == [0.5, 0.25, 1.0]
    assert found.prefixes["step"].tolist() == [0, 1, 1]


def test_ratings_of_people_say_where_the_first_error_is() -> None:
    steps = [
        {"completions": [{"text": "a", "rating": 1}], "chosen_completion": 0},
        {"completions": [{"text": "x", "rating": 1}, {"text": "b", "rating": -1}], "chosen_completion": 1},
        {"completions": [{"text": "c", "rating": 0}], "chosen_completion": None, "human_completion": None},
    ]
    label = {"steps": steps, "finish_reason": "found_error"}
    found = rows_of([{"question": {"problem": "1+1?"}, "label": label, "scores": [0.9, 0.2, 0.1]}])
    assert found.target == "first error"
    assert found.questions == ("1+1?",)
    assert found.prefixes["label"].tolist() == [1.0, 0.0, 0.0]


def test_steps_of_solutions_that_have_no_name_are_not_mixed() -> None:
    rows = [{key: value for key, value in row.items() if key != "solution"} for row in files.rows_of_steps()]
    with pytest.raises(DataError, match=r"has step 1 twice in one solution\. Name the solutions in a field 'solution'"):
        rows_of(rows)


def test_one_question_is_not_enough() -> None:
    with pytest.raises(DataError, match=r"of one question only.*--question FIELD"):
        audit(pd.DataFrame(files.flat()[: files.SOLUTIONS]))


def test_answers_are_graded_if_nothing_says_what_is_right() -> None:
    texts = ["Sum.\n\nThe answer is 4.", "Sum.\n\n\\boxed{5}"]
    found = rows_of(
        [{"question": "2+2?", "answer": 4, "solutions": texts, "scores": [[0.5, 0.9], [0.5, 0.1]]}] * 2
    )  # The second record is a copy.
    assert found.solutions["label"].tolist() == [1.0, 0.0]
    assert found.solutions["answer"].tolist() == ["4", "5"]
    assert "against which the answers were graded" in found.reading[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rewards": [0.1, 0.2]}, r"the score can be 'scores' .* or 'rewards' .* --score scores or --score rewards"),
        ({"passed": False}, r"the label can be 'correct' .* or 'passed' .* --label correct or --label passed"),
        ({"scores": ["high", "low"]}, "no field is known as the score"),
        ({"correct": "maybe"}, "no field is known as the label"),
    ],
)
def test_what_cannot_be_decided_names_the_option(change: dict[str, Any], message: str) -> None:
    record = {"question": "1+1?", "steps": ["a", "b"], "scores": [0.5, 0.75], "correct": True}
    with pytest.raises(DataError, match=message):
        rows_of([{**record, **change}])


def test_the_scale_is_never_guessed_against_the_numbers() -> None:
    def one(scores: list[float], **fields: Any) -> ScoredSolutions:
        return rows_of([{"question": "1+1?", "score": each, "correct": True} for each in scores], **fields)

    assert one([0.0, 0.5, 1.0]).scale.name == "probability"
    assert one([-3.0, 0.5, 4.0]).scale.name == "logit"
    mostly = [0.5] * 40 + [1.5]
    with pytest.raises(DataError, match=r"40 scores lie in .* but 1 do not, such as 1\.5\. Say what they are: --as"):
        one(mostly)
    assert one(mostly, scale="logit").scale.name == "logit"
    with pytest.raises(DataError, match="a probability must be in"):
        one(mostly, scale="probability")


def test_every_container_has_the_same_rows(tmp_path: Path) -> None:
    records = files.flat()
    lines = "\n".join(map(json.dumps, records)).encode()
    table = pd.DataFrame(records)
    (tmp_path / "a.jsonl").write_bytes(lines)
    (tmp_path / "a.json").write_text(json.dumps(records))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines))
    table.to_parquet(tmp_path / "a.parquet")
    text = table.assign(**{name: table[name].map(json.dumps) for name in ("steps", "scores")})
    text.to_csv(tmp_path / "a.csv", index=False)
    text.to_csv(tmp_path / "a.tsv.bz2", index=False, sep="\t")
    (tmp_path / "saved").mkdir()
    arrow = pa.Table.from_pylist(records)
    sink = pa.OSFile(str(tmp_path / "saved" / "data-00000-of-00001.arrow"), "wb")
    with sink, pa.ipc.new_stream(sink, arrow.schema) as writer:
        writer.write_table(arrow)
    wanted = rows_of(records).prefixes
    for path in sorted(tmp_path.iterdir()):
        pd.testing.assert_frame_equal(scored_records(read_records(path), str(path), Fields()).prefixes, wanted)
    pd.testing.assert_frame_equal(audit(table).prefixes, wanted)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="a folder without a data set"):
        read_records(tmp_path / "empty")


def test_a_table_of_agents_is_read_with_its_named_fields() -> None:
    agents = pd.read_csv(DATA / "terminal_bench_2_trajectories.csv")
    random = np.random.default_rng(0)
    agents["score"] = (0.7 * agents["reward"] + 0.3 * random.random(len(agents))).round(3)
    read = audit(agents[["agent", "task", "reward", "score"]], Fields(score="score", label="reward"))
    assert len(read.scored.questions) == agents["task"].nunique()
