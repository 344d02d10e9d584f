"""Scores and labels are read as they are meant, whatever their scale, their words and their fields."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from prmcal.errors import DataError
from prmcal.harness.audit.audit import Audit, audit
from prmcal.harness.audit.groups import compared_scores
from prmcal.registry.reading.fields import Fields
from tests.conftest import Prmcal

Row = dict[str, Any]
RANDOM = np.random.default_rng(0)
CHANCES = [[float(RANDOM.uniform(0.02, 0.98)) for _ in range(3)] for _ in range(40)]
RIGHT = [[bool(RANDOM.random() < chance) for chance in row] for row in CHANCES]


def rows_of(row: Callable[[float, bool], Row]) -> list[Row]:
    """Return a row for each of three solutions of forty questions, of its chance and its outcome."""
    pairs = zip(CHANCES, RIGHT, strict=True)
    return [
        {"question": f"question {place}", **row(chance, right)}
        for place, pair in enumerate(pairs)
        for chance, right in zip(*pair, strict=True)
    ]


def read(folder: Path, *contents: list[Row], by: str | None = None, **fields: Any) -> Audit:
    paths = []
    for place, content in enumerate(contents):
        paths.append(folder / f"{place}.jsonl")
        paths[-1].write_text("\n".join(map(json.dumps, content)))
    return audit(paths, Fields(**fields), by=by)


@pytest.mark.parametrize(
    ("row", "fields", "scale"),
    [
        (lambda p, y: {"confidence": f"{100 * p:.1f}%", "correct": y}, {}, "probability"),
        (lambda p, y: {"score": f"{p:.3f}", "correct": "yes" if y else "no"}, {}, "probability"),
        (lambda p, y: {"confidence": round(100 * p, 1), "is_correct": int(y)}, {}, "percent"),
        (lambda p, y: {"score": round(100 * p), "label": "Correct" if y else "Wrong"}, {}, "percent"),
        (lambda p, y: {"score": 1 + round(9 * p), "label": 1 if y else -1}, {}, "grade"),
        (lambda p, y: {"rating": 1 + round(4 * p), "label": "pass" if y else "fail"}, {"score": "rating"}, "grade"),
        (lambda p, y: {"score": float(np.log(p / (1 - p))), "correct": "True" if y else "False"}, {}, "logit"),
        (lambda p, y: {"score": 1 - p, "correct": y}, {"reverse": True}, "probability"),
        (
            lambda p, y: {"p_true": f"{1000 * p:.0f}/1000", "label": "resolved" if y else "unresolved"},
            {},
            "probability",
        ),
        (lambda p, y: {"score": 1 + round(6 * p), "label": "+" if y else "-"}, {"scale": "1-7"}, "grade"),
        (
            lambda p, y: {"mine": "7" if y else "8", "gold": "7", "score": p},
            {"answer": "mine", "truth": "gold"},
            "probability",
        ),
        (lambda p, y: {"extracted_answer": "7" if y else "8", "correct_answer": "7", "score": p}, {}, "probability"),
    ],
)
def test_scales_and_words(
    row: Callable[[float, bool], Row], fields: dict[str, Any], scale: str, tmp_path: Path
) -> None:
    found = read(tmp_path, rows_of(row), **fields)
    assert found.scored.scale.name == scale
    tolerance = 0.13 if scale == "grade" else 0.006
    assert found.prefixes["reward"].to_numpy() == pytest.approx(np.ravel(CHANCES), abs=tolerance)
    assert found.solutions["label"].tolist() == np.ravel(RIGHT).astype(float).tolist()


@pytest.mark.parametrize(
    ("row", "options"),
    [
        (lambda p, y: {"score": -9 * float(np.log(p)), "correct": y}, "--as rank, or .* --as rank --reverse"),
        (lambda p, y: {"score": 10 + 5 * p, "correct": y}, "--as rank, or .* --as rank --reverse"),
        (lambda p, y: {"score": 9 * float(np.log(p)), "correct": y}, "--as logit, or .* --as rank"),
        (lambda p, y: {"score": round(100 * p, 1), "correct": y}, "--as percent, or .* --as rank"),
        (lambda p, y: {"score": 1 + round(6 * p), "correct": y}, "--as 1-7, or .* --as grade"),
    ],
)
def test_what_numbers_cannot_be_is_asked_with_two_commands(
    row: Callable[[float, bool], Row], options: str, tmp_path: Path
) -> None:
    content = rows_of(row)
    with pytest.raises(DataError, match=rf"the scores in 'score' \({content[0]['score']:g}, .*{options}"):
        read(tmp_path, content)
    seconds = read(tmp_path, content, scale="rank", reverse="reverse" in options)
    assert seconds.measured.chosen in ("isotonic", "histogram")
    assert "The scores are" not in str(seconds)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (lambda p, y: {"p": p, "correct": y}, r"no field is known as the score\..* Name it: --score p \(0\.\d+, 0\."),
        (lambda p, y: {"confidence": "high", "correct": y}, r"and 'confidence' \('high', 'high', 'high'\) is none"),
        (lambda p, y: {"confidence": 100 * p if y else p, "correct": y}, "Say what they are: .* or --as percent"),
        (lambda p, y: {"score": p, "graded": True}, r"Name it: --label graded \(True, True, True\)"),
        (lambda p, y: {"score": p, "label": 100 * y}, r"'label' \(\d+, \d+, \d+\) (is none|cannot be read)"),
        (
            lambda p, y: {"score": p, "prediction": "yes" if y else "no", "label": "yes"},
            "Say which: --label label, or --answer prediction --truth label",
        ),
    ],
)
def test_what_cannot_be_read_names_the_field_its_values_and_the_options(
    row: Callable[[float, bool], Row], message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, rows_of(row))


def test_a_name_of_a_data_set_is_no_question_and_equal_ids_of_two_are_several(tmp_path: Path) -> None:
    rows = [{"task": "ab"[place % 2], "id": place // 2, "score": 0.5, "correct": True} for place in range(80)]
    with pytest.raises(
        DataError, match=r"'task' \('a', 'b', 'a'\) or 'id' \(0, 0, 1\)\. Say which: --question task or"
    ):
        read(tmp_path, rows)
    assert len(read(tmp_path, rows, question="id").scored.questions) == 80


def test_a_list_of_answers_is_one_of_solutions_and_rates_belong_to_steps(tmp_path: Path) -> None:
    rows = [
        {"question": f"q {place}", "preds": [7, 8, 7], "scores": [0.1, 0.2, 0.3], "gold": "7"} for place in range(9)
    ]
    found = read(tmp_path, rows)
    assert found.solutions["label"].tolist() == [1, 0, 1] * 9
    assert found.prefixes["score"].tolist() == [0.1, 0.2, 0.3] * 9
    bare = [
        {"question": f"q {place}", "responses": ["7", "8"], "scores": [0.1, 0.2], "answer": "7"} for place in range(9)
    ]
    assert read(tmp_path, bare).solutions["label"].tolist() == [1, 0] * 9
    paths = [{"text": "So we see.", "final_answer": number, "score": number / 9} for number in (7, 8)]
    objects = read(tmp_path, [{"question": f"q {place}", "paths": paths, "gold": 7} for place in range(9)])
    assert objects.solutions["label"].tolist() == [1, 0] * 9
    steps = [{"question": f"q {place}", "scores": [0.9, 0.5], "labels": [1.0, 0.25]} for place in range(9)]
    assert read(tmp_path, steps).scored.target == "success rate"
    assert read(tmp_path, steps).prefixes["label"].tolist() == [1, 0.25] * 9
    one = [
        {"question": f"q {row // 4}", "rollout_id": row // 2, "step_index": row % 2, "score": 0.5} for row in range(80)
    ]
    assert len(read(tmp_path, [{**row, "correct": True} for row in one]).solutions) == 40


@pytest.mark.parametrize(
    "names", [["question", "sample"], ["problem_id", "attempt"], ["uid", "question"], ["question"]]
)
def test_two_files_are_joined_by_their_ids_in_any_order(names: list[str], tmp_path: Path) -> None:
    rows = [
        {**row, "sample": place % 3, "attempt": place % 3, "uid": place, "problem_id": row["question"]}
        for place, row in enumerate(rows_of(lambda p, y: {"score": p, "correct": y}))
    ]
    parts = [[{name: row[name] for name in [*names, what]} for row in rows] for what in ("correct", "score")]
    parts[1] = parts[1] if names == ["question"] else parts[1][::-1]
    for files in (parts, parts[::-1]):
        found = read(tmp_path, *files)
        joined = {(round(row.score, 9), bool(row.label)) for row in found.prefixes.itertuples()}
        assert joined == {(round(row["score"], 9), row["correct"]) for row in rows}


@pytest.mark.parametrize(
    ("labels", "base"),
    [([-1, 0, 1, 2], 0), ([None, 1, 2, 3], 1), ([0, 1, 2, 3], 1), (["N/A", 0, 1, 2], 0), (["N/A", 1.0, 2.0, 3.0], 1)],
)
def test_the_first_wrong_step_is_counted_from_0_or_1(labels: list[Any], base: int, tmp_path: Path) -> None:
    rows = [
        {"question": f"q {place}", "steps": ["a", "b", "c"], "scores": [0.9, 0.5, 0.4], "error": labels[place % 4]}
        for place in range(8)
    ]
    found = read(tmp_path, rows, label="error")
    assert found.scored.target == "first error"
    assert f"counted from {base}" in found.scored.reading[0]
    assert found.prefixes["label"].tolist() == [1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 1, 0] * 2


def test_labels_of_steps_classes_and_ids(tmp_path: Path) -> None:
    classes = [[0.3, 0.1, 0.6], [0.05, 0.05, 0.9]]
    rows = [{"id": place, "question": f"q {place}", "step_labels": [1, -1 + place % 2]} for place in range(6)]
    found = read(tmp_path, rows, [{"id": place, "scores": classes} for place in range(5, -1, -1)])
    assert found.scored.target == "step"
    assert found.prefixes["score"].tolist() == pytest.approx([0.7, 0.95] * 6)
    assert found.prefixes["label"].tolist() == [1, 0, 1, 1] * 3  # With -1, 0 is neutral.
    ids = [{"question_id": 7 * q, "sample_id": k, "correct": k == q % 3} for q in range(20) for k in range(3)]
    scores = [{"question_id": 7 * q, "sample_id": k, "score": k / 4} for k in range(3) for q in range(20)]
    joined = read(tmp_path, ids, scores)
    assert joined.prefixes["score"].tolist() == [0.0, 0.25, 0.5] * 20
    steps = [
        {
            "question": f"q {q}",
            "trajectory_id": k,
            "idx": 100 * q + 10 * k + s,
            "step": s,
            "score": s / 4,
            "correct": True,
        }
        for q in range(4)
        for k in range(2)
        for s in (1, 2)
    ]
    assert len(read(tmp_path, steps).solutions) == 8


def test_votes_alone_say_what_a_vote_gives(tmp_path: Path) -> None:
    answers = ["The answer is 7.", "The answer is 7.", "The answer is 8."]
    rows = [{"question": f"q {place}", "answer": "7", "generated_answer": answers} for place in range(30)]
    found = read(tmp_path, rows)
    assert found.choices is not None
    vote = next(row for row in found.choices.rows if row.name == "majority vote of 3")
    assert (vote.accuracy.value, found.choices.rows[0].accuracy.value) == pytest.approx((1, 2 / 3))
    assert "Use 'majority vote of 3'" in str(found)
    found.save(tmp_path / "out")
    assert (tmp_path / "out" / "report.html").is_file()


def test_letters_and_texts_of_options_are_one_answer_and_many_unread_ones_are_told(tmp_path: Path) -> None:
    unread = "Hard.\n\nVery hard."
    texts = {True: ["Answer: C", "Answer: 12", r"\boxed{(C) 12}"], False: [unread, "Answer: 10", "Answer: A"]}

    def row(chance: float, right: bool) -> Row:
        solution = texts[right][int(chance * 3)]
        return {"options": ["10", "11", "12"], "answer": "C", "solution": solution, "score": chance}

    audited = read(tmp_path, rows_of(row))
    assert audited.prefixes["label"].tolist() == [float(right) for of_question in RIGHT for right in of_question]
    assert audited.scored.doubts[0].startswith("No answer was found in ")


def test_several_llms_and_data_sets_are_no_pool_and_scores_are_compared(tmp_path: Path) -> None:
    rows = [{**row, "llm": llm} for llm in "AB" for row in rows_of(lambda p, y: {"score": p, "correct": y})]
    found = read(tmp_path, rows)
    assert list(found.groups) == ["A", "B"]
    assert {len(group.solutions) for group in found.groups.values()} == {120}
    assert "2 groups by 'llm', which are not one pool" in " ".join(str(found).split())
    scorers = [{**row, "Judge": name} for name in "AB" for row in rows_of(lambda p, y: {"score": p, "correct": y})]
    assert list(read(tmp_path, scorers).groups) == ["A", "B"]
    other = [{"id": place % 40, "benchmark": "xy"[place // 40], "score": 0.5, "correct": True} for place in range(80)]
    assert len(read(tmp_path, other).scored.questions) == 80
    both = rows_of(lambda p, y: {"score": p, "reward": 0.5, "correct": y})
    with pytest.raises(DataError, match="To compare them: --score score --score reward"):
        read(tmp_path, both)
    audits = {name: read(tmp_path, both, score=name) for name in ("score", "reward")}
    text = compared_scores({name: (audited.scored, audited.measured) for name, audited in audits.items()})
    assert "reward - score, AUC within: -0." in text


def test_reversed_scores_and_solutions_that_are_all_wrong_are_said_first(tmp_path: Path) -> None:
    found = str(read(tmp_path, rows_of(lambda p, y: {"score": round(1 - (p + y) / 2, 3), "correct": y})))
    assert found.startswith("Higher scores are worse: AUC within")
    assert "--reverse" in found.split("\n\n")[0]
    wrong = rows_of(lambda p, y: {"score": p, "response": "So \\boxed{2}", "answer": "3"})
    text = " ".join(str(read(tmp_path, wrong)).split())
    assert "0 of 120 solutions were graded right" in text and "'2' (boxed), and the reference is '3'" in text
    assert "Too few to say whether a calibrator helps" in text
    boxes = rows_of(lambda p, y: {"score": p, "response": "So \\boxed{2} or \\boxed{3}", "answer": "2, 3"})
    assert read(tmp_path, boxes).solutions["label"].mean() == 1


def test_apply_takes_the_field_and_the_files_of_the_audit(tmp_path: Path, prmcal: Prmcal) -> None:
    content = [
        {
            "question": f"q {place}",
            "response": ["a", "b"],
            "pred_score": [[-2.0], [3.0]],
            "score": [place % 3 > 0, True],
        }
        for place in range(40)
    ]
    read(tmp_path, content).save(tmp_path / "one")
    lines = prmcal("apply", tmp_path / "one").stdout.splitlines()
    assert json.loads(lines[0])["calibrated"][0] != json.loads(lines[0])["calibrated"][1]
    assert json.loads(lines[0])["calibrated"] == json.loads(lines[1])["calibrated"]
    labels = [{"id": place, "question": f"q {place}", "correct": place % 2 == 0} for place in range(40)]
    read(tmp_path, labels, [{"id": place, "scores": place / 40} for place in range(40)]).save(tmp_path / "two")
    joined = prmcal("apply", tmp_path / "two", tmp_path / "0.jsonl", tmp_path / "1.jsonl")
    assert joined.returncode == 0, joined.stderr
    assert {"correct", "scores", "calibrated"} <= json.loads(joined.stdout.splitlines()[0]).keys()


def told(number: int, random: np.random.Generator) -> list[dict[str, Any]]:
    """Four solutions of a question, with texts."""
    return [
        {
            "text": f"With {number} and {place} we count to {number + place}, as anyone can see.",
            "score": round(float(random.random()), 3),
            "correct": bool(random.random() < 0.6),
        }
        for place in range(4)
    ]


@pytest.mark.parametrize("named", [{"problem": "How many are {} of them, all in all?"}, {}])
def test_a_question_that_stands_twice_is_one(named: dict[str, str]) -> None:
    random, rows = np.random.default_rng(0), []
    for number in range(30):
        own = {name: text.format(number) for name, text in named.items()} | {"solutions": told(number, random)}
        rows += [{"id": f"{number}-{copy}", **own} for copy in "ab"]
    found, once = audit(pd.DataFrame(rows)), audit(pd.DataFrame(rows[::2]))
    assert "30 texts of questions repeat" in str(found).partition("\n\n")[0]
    assert found.measured.brier == once.measured.brier and len(found.prefixes) == 120
    other = [{**row, "instruction": "Answer this question step by step."} for row in rows[::2]]
    assert "repeat" not in str(audit(pd.DataFrame(other)))


def test_llms_that_solutions_name_are_groups(tmp_path: Path) -> None:
    random, path = np.random.default_rng(0), tmp_path / "scored.jsonl"
    with path.open("w") as file:
        for number in range(30):
            own = [{**each, "model": name} for name in "xy" for each in told(number, random)]
            file.write(json.dumps({"question": f"How many are {number} of them?", "solutions": own}) + "\n")
    assert "2 groups by 'model'" in str(audit(path))
    assert len(audit(path, only={"model": ["x"]}).solutions) == 120
