"""The same four solutions in files of public shapes, with the fields and the nesting that their writers give them.

    python -m tests.harness.audit.public

writes the table of these shapes, and what is read from each, into ``docs/how-to/audit.md``.
"""

from __future__ import annotations

import io
import json
import re
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prmcal.harness.audit.audit import audit
from prmcal.harness.audit.scored import Scored, Target
from prmcal.registry.reading.solutions import Fields

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "audit.md"
_TAG = "\u043a\u0438"


@dataclass(frozen=True)
class Solution:
    """A solution with the scores and the labels that the files have in their own ways."""

    question: str
    answer: str
    steps: tuple[str, ...]
    scores: tuple[float, ...]
    right: bool
    wrong_steps: tuple[int, ...]
    """The steps that are wrong, counted from 1."""
    rates: tuple[float, ...]

    @property
    def text(self) -> str:
        return "\n\n".join(self.steps)

    @property
    def first_error(self) -> int:
        """The first wrong step, counted from 0; -1 if none is wrong."""
        return min(self.wrong_steps, default=0) - 1


SOLUTIONS = (
    Solution("What is 2+3?", "5", ("2+3 is 5.", "The answer is 5."), (0.9, 0.8), True, (), (1.0, 1.0)),
    Solution(
        "What is 2+3?",
        answer="5",
        steps=("2+3 is 6.", "So it is 6.", "The answer is 6."),
        scores=(0.6, 0.3, 0.2),
        right=False,
        wrong_steps=(1,),
        rates=(0.25, 0.125, 0.0),
    ),
    Solution("What is 4*2?", "8", ("4*2 is 8.", "The answer is 8."), (0.95, 0.85), True, (), (0.875, 1.0)),
    Solution(
        "What is 4*2?",
        answer="8",
        steps=("4*2 is 8.", "8+1 is 9.", "The answer is 9."),
        scores=(0.7, 0.4, 0.1),
        right=False,
        wrong_steps=(2, 3),
        rates=(0.75, 0.25, 0.0),
    ),
)
_GROUPS = (SOLUTIONS[:2], SOLUTIONS[2:])

_NO_OPTIONS = Fields()
Files = Mapping[str, bytes]


def _lines(records: Sequence[Any]) -> bytes:
    return "\n".join(json.dumps(each, ensure_ascii=False) for each in records).encode()


def _scores(key: str = "id", name: str = "scores", prefix: str = "") -> bytes:
    """Return a file with the scores alone, in another order."""
    return _lines(
        [{key: f"{prefix}{place}", name: each.scores} for place, each in enumerate(SOLUTIONS)][::-1]
    )


def _search_and_learn() -> Files:
    records = [
        {
            "problem": group[0].question,
            "solution": f"It is \\boxed{{{group[0].answer}}}.",
            "answer": group[0].answer,
            "subject": "Prealgebra",
            "level": 1 + place,
            "unique_id": f"test/prealgebra/{place}.json",
            "completions": [each.text for each in group],
            "scores": [each.scores for each in group],
            "pred": group[0].text,
            "completion_tokens": [len(each.text) for each in group],
            "agg_scores": [each.scores[-1] for each in group],
            "pred_weighted@2": f"\\boxed{{{group[0].answer}}}",
            "pred_maj@2": f"\\boxed{{{group[0].answer}}}",
            "pred_naive@2": f"\\boxed{{{group[0].answer}}}",
        }
        for place, group in enumerate(_GROUPS)
    ]
    return {"best_of_n_completions.jsonl": _lines(records)}


def _openr_paths() -> Files:
    records = [
        {
            "question": group[0].question,
            "groundtruth": group[0].answer,
            "result": {"majority_vote": 1, "prm_min_max": 1, "prm_min_vote": 1},
            "output": [
                {
                    "path_idx": place,
                    "text": each.text,
                    "value": each.scores,
                    "completion_tokens": len(each.text),
                }
                for place, each in enumerate(group)
            ],
        }
        for group in _GROUPS
    ]
    return {"record.jsonl": _lines(records)}


def _qwen_math() -> Files:
    records = [
        {
            "idx": place,
            "question": group[0].question,
            "gt_cot": f"It is {group[0].answer}.",
            "gt": group[0].answer,
            "level": "Level 1",
            "solution": f"It is {group[0].answer}.",
            "answer": group[0].answer,
            "code": [each.text for each in group],
            "pred": [each.text.split()[-1].rstrip(".") for each in group],
            "report": [None] * len(group),
            "score": [each.right for each in group],
            "query": group[0].question,
            "response": [each.text for each in group],
            "history": [],
            "pred_score": [[each.scores[-1]] for each in group],
        }
        for place, group in enumerate(_GROUPS)
    ]
    return {"math_cot.jsonl": _lines(records)}


def _lm_eval(group: Sequence[Solution], place: int, kept: str, right: bool) -> dict[str, Any]:
    return {
        "doc_id": place,
        "doc": {"question": group[0].question, "answer": f"Add them.\n#### {group[0].answer}"},
        "target": f"Add them.\n#### {group[0].answer}",
        "arguments": {"gen_args_0": {"arg_0": group[0].question, "arg_1": {"until": ["Question:"]}}},
        "resps": [[each.text for each in group]],
        "filtered_resps": [group[0].answer],
        "filter": kept,
        "metrics": ["exact_match"],
        "doc_hash": "0" * 64,
        "prompt_hash": "0" * 64,
        "target_hash": "0" * 64,
        "exact_match": float(right),
    }


def _lm_eval_alone() -> Files:
    """Return a log with two filters, of which the stricter one reads no answer, and the scores in a second file."""
    rows = [
        _lm_eval([each], place, kept, each.right and kept == "flexible-extract")
        for kept in ("strict-match", "flexible-extract")
        for place, each in enumerate(SOLUTIONS)
    ]
    scores = [{"doc_id": place, "scores": each.scores} for place, each in enumerate(SOLUTIONS)]
    return {"samples_gsm8k_2026-01-01.jsonl": _lines(rows), "scores.jsonl": _lines(scores)}


def _lm_eval_repeats() -> Files:
    """Return a log with repeats. Its metric is that of the vote, so it says nothing of each response."""
    rows = [
        {**_lm_eval(group, place, "maj@2", True), "scores": [each.scores for each in group]}
        for place, group in enumerate(_GROUPS)
    ]
    return {"samples_gsm8k_cot_self_consistency_2026-01-01.jsonl": _lines(rows)}


def _inspect_samples() -> list[dict[str, Any]]:
    return [
        {
            "id": 1 + place // 2,
            "epoch": 1 + place % 2,
            "input": [
                {"id": "a", "content": "Think step by step.", "role": "system"},
                {"id": "b", "content": [{"type": "text", "text": each.question}], "role": "user"},
            ],
            "target": each.answer,
            "messages": [{"id": "b", "content": each.question, "role": "user"}],
            "output": {
                "model": "a/model",
                "choices": [
                    {
                        "message": {
                            "id": "c",
                            "content": each.text,
                            "source": "generate",
                            "role": "assistant",
                        },
                        "stop_reason": "stop",
                    }
                ],
                **({"completion": each.text} if place % 2 else {}),  # Older versions do not write it.
                "usage": {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18},
            },
            "scores": {"match": {"value": "C" if each.right else "I", "answer": each.answer}},
            "metadata": {"prm_scores": each.scores},
        }
        for place, each in enumerate(SOLUTIONS)
    ]


_INSPECT_LOG = {"version": 2, "status": "success", "eval": {"task": "sums", "model": "a/model"}, "plan": {}}


def _inspect_archive() -> Files:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_journal/start.json", json.dumps(_INSPECT_LOG))
        for each in _inspect_samples():
            archive.writestr(f"samples/{each['id']}_epoch_{each['epoch']}.json", json.dumps(each, indent=2))
        archive.writestr("summaries.json", "[]")
        archive.writestr("header.json", json.dumps(_INSPECT_LOG))
    return {"2026-01-01T00-00-00_sums_a.eval": file.getvalue()}


def _inspect_json() -> Files:
    log = {**_INSPECT_LOG, "results": {"scores": []}, "stats": {}, "samples": _inspect_samples()}
    return {"2026-01-01T00-00-00_sums_a.json": json.dumps(log, indent=2).encode()}


def _processbench() -> Files:
    labels = [
        {
            "id": f"gsm8k-{place}",
            "generator": "Qwen2-7B-Instruct",
            "problem": each.question,
            "steps": each.steps,
            "final_answer_correct": each.right,
            "label": each.first_error,
        }
        for place, each in enumerate(SOLUTIONS)
    ]
    return {"gsm8k.json": json.dumps(labels).encode(), "scores.jsonl": _scores(prefix="gsm8k-")}


def _prmbench() -> Files:
    kinds = ("multi_solutions", "confidence", "multi_solutions", "circular")
    labels = [
        {
            "original_question": each.question,
            "modified_question": each.question,
            "original_process": list(each.steps),
            "modified_process": list(each.steps),
            "modified_steps": list(each.wrong_steps),
            "error_steps": list(each.wrong_steps),
            "reason": "The sum is wrong.",
            "idx": f"{kind}_prm_test_p1_{place}",
            "question": each.question,
            "classification": kind,
        }
        for place, (kind, each) in enumerate(zip(kinds, SOLUTIONS, strict=True))
    ]
    scores = [
        {
            "idx": label["idx"],
            "scores": {
                "step_level_validity_scores": each.scores,
                "step_level_validity_labels": [score > 0.5 for score in each.scores],
            },
        }
        for label, each in zip(labels, SOLUTIONS, strict=True)
    ]
    return {"prmbench_preview.jsonl": _lines(labels), "qwen_prm.jsonl": _lines(scores)}


def _prm800k() -> Files:
    """Return labels as in phase 2: they end with the first error, whose other completions are labelled too."""
    records = []
    for each in SOLUTIONS:
        last = len(each.steps) if each.first_error < 0 else each.first_error + 1
        steps: list[dict[str, Any]] = [
            {
                "completions": [{"text": text, "rating": 1, "flagged": None}],
                "human_completion": None,
                "chosen_completion": 0,
            }
            for text in each.steps[:last]
        ]
        if each.first_error >= 0:
            steps[-1]["completions"][0]["rating"] = -1
            steps[-1]["completions"].append({"text": "Another step.", "rating": 0, "flagged": False})
            steps[-1]["chosen_completion"] = None
        records.append(
            {
                "labeler": "340d89bc",
                "timestamp": "2023-01-22T04:34:27.052924",
                "generation": 9,
                "is_quality_control_question": False,
                "is_initial_screening_question": False,
                "question": {
                    "problem": each.question,
                    "ground_truth_solution": f"It is {each.answer}.",
                    "ground_truth_answer": each.answer,
                    "pre_generated_steps": list(each.steps),
                    "pre_generated_answer": each.answer,
                    "pre_generated_verifier_score": 0.01,
                },
                "label": {
                    "steps": steps,
                    "total_time": 278270,
                    "finish_reason": "solution" if each.first_error < 0 else "found_error",
                },
                "scores": each.scores[:last],
            }
        )
    return {"phase2_test.jsonl": _lines(records)}


def _math_shepherd() -> Files:
    records = []
    for each in SOLUTIONS:
        steps = [f"Step {place}: {text}" for place, text in enumerate(each.steps, start=1)]
        marks = ["-" if place in each.wrong_steps else "+" for place in range(1, len(steps) + 1)]
        records.append(
            {
                "input": f"{each.question} " + "\n".join(f"{step} {_TAG}" for step in steps),
                "label": f"{each.question} "
                + "\n".join(f"{step} {mark}" for step, mark in zip(steps, marks, strict=True)),
                "task": "GSM8K",
                "scores": each.scores,
            }
        )
    return {"math-shepherd.jsonl": _lines(records)}


def _trl() -> Files:
    records = [
        {
            "prompt": each.question,
            "completions": each.steps,
            "labels": [place not in each.wrong_steps for place in range(1, len(each.steps) + 1)],
            "scores": each.scores,
        }
        for each in SOLUTIONS
    ]
    return {"math_shepherd_of_trl.jsonl": _lines(records)}


def _openr_lists() -> Files:
    records = [
        {
            "question": each.question,
            "final_answer": each.answer,
            "reasoning_steps": [
                {
                    "solution_prefix": "\n\n".join([each.question, *each.steps[: place + 1]]),
                    "mc_value": rate,
                    "score": score,
                }
                for place, (rate, score) in enumerate(zip(each.rates, each.scores, strict=True))
            ],
            "question_id": str(place),
        }
        for place, each in enumerate(SOLUTIONS)
    ]
    return {"math_aps.json": json.dumps(records).encode()}


def _openr_trees() -> Files:
    records = []
    for place, group in enumerate(_GROUPS):
        root: dict[str, Any] = {"text": group[0].question, "mc_value": 0.5, "children": []}
        for each in group:
            node = root
            for text, rate, score in zip(each.steps, each.rates, each.scores, strict=True):
                node["children"].append({"text": text, "mc_value": rate, "score": score, "children": []})
                node = node["children"][-1]
        records.append(
            {
                "question": group[0].question,
                "final_answer": group[0].answer,
                "reasoning_steps": root,
                "question_id": str(place),
            }
        )
    return {"math_aps_tree.json": json.dumps(records).encode()}


def _human_eval() -> Files:
    records = [
        {
            "task_id": f"HumanEval/{place // 2}",
            "completion": each.text,
            "result": "passed" if each.right else "failed: ",
            "passed": each.right,
            "verifier_score": each.scores[-1],
        }
        for place, each in enumerate(SOLUTIONS)
    ]
    return {"samples.jsonl_results.jsonl": _lines(records)}


def _agents() -> Files:
    rows = [
        f"an agent,sum-{place // 2},{place % 2},{float(each.right)},{each.scores[-1]}"
        for place, each in enumerate(SOLUTIONS)
    ]
    return {"trials.csv": "\n".join(["agent,task,trial,resolved,verifier_score", *rows]).encode()}


@dataclass(frozen=True)
class Public:
    """A public shape."""

    name: str
    fields: str
    """The fields that are read."""
    files: Callable[[], Files]
    target: Target
    options: Fields = _NO_OPTIONS
    is_whole: bool = False
    """True if there is one score for each solution."""
    names: tuple[str, ...] = tuple(dict.fromkeys(each.question for each in SOLUTIONS))

    def read(self, folder: Path) -> Scored:
        """Write the files into a folder and read them."""
        for name, content in self.files().items():
            (folder / name).write_bytes(content)
        return audit([folder / name for name in self.files()], self.options).scored


SHAPES = (
    Public(
        "search-and-learn: data sets of completions",
        "`problem`, `completions`, `scores`; the answers are graded against `answer`",
        *(_search_and_learn, "outcome"),
    ),
    Public(
        "openr and compute-optimal-tts: `record.jsonl`",
        "`question`, `output` with `text` and `value`; graded against `groundtruth`",
        *(_openr_paths, "outcome"),
    ),
    Public(
        "Qwen2.5-Math: recorded solutions with a reward model",
        "`question`, `response`, `pred_score`; `score` says which are right",
        *(_qwen_math, "outcome", _NO_OPTIONS, True),
    ),
    Public(
        "lm-evaluation-harness: `samples_*.jsonl`, and a file of scores",
        "`doc`, `resps`, `exact_match`; `doc_id`, `scores`; `--label flexible-extract`, if there are several filters",
        *(_lm_eval_alone, "outcome", Fields(label="flexible-extract")),
    ),
    Public(
        "lm-evaluation-harness: the same with repeats",
        "`doc`, `resps`, `scores`; one metric for all, so they are graded against `target`",
        *(_lm_eval_repeats, "outcome"),
    ),
    Public(
        "inspect: `.eval`",
        "samples with `input`, `output`, the value of the first scorer, `metadata` with `prm_scores`",
        *(_inspect_archive, "outcome"),
    ),
    Public("inspect: log as JSON", "the same", _inspect_json, "outcome"),
    Public(
        "ProcessBench, and a file of scores",
        "`problem`, `steps`, `label`; `id`, `scores`",
        *(_processbench, "first error"),
    ),
    Public(
        "PRMBench, and a file of scores, such as its own tool writes",
        "`original_question`, `modified_process`, `error_steps`, `classification`; `idx`, `scores`",
        *(_prmbench, "step"),
    ),
    Public(
        "PRM800K, with scores",
        "`question`, `label.steps` with the `rating` of the chosen completion",
        *(_prm800k, "first error"),
    ),
    Public(
        "Math-Shepherd, with scores",
        "`input` with a tag behind each step, `label` with + and -",
        *(_math_shepherd, "success rate"),
    ),
    Public(
        "TRL: stepwise supervision, with scores",
        "`prompt`, `completions` (the steps), `labels` of the steps",
        *(_trl, "step"),
    ),
    Public(
        "openr: success rates as lists, with scores",
        "`question`, `reasoning_steps` with `solution_prefix` and `mc_value`",
        *(_openr_lists, "success rate"),
    ),
    Public(
        "openr: success rates as trees, with scores",
        "`question`, `reasoning_steps` with `text`, `mc_value` and `children`",
        *(_openr_trees, "success rate"),
    ),
    Public(
        "HumanEval: results of programs, with scores",
        "`task_id`, `completion`, `passed`, `verifier_score`",
        *(_human_eval, "outcome", _NO_OPTIONS, True, ("HumanEval/0", "HumanEval/1")),
    ),
    Public(
        "Trials of agents",
        "`task`, `resolved`, `verifier_score`",
        *(_agents, "outcome", _NO_OPTIONS, True, ("sum-0", "sum-1")),
    ),
)
"""Those of other projects. Shapes of one's own are in `files`."""


def table() -> str:
    """Return what is read from each shape, as the rows of a table."""
    rows = ["| file | what is read | as |", "| --- | --- | --- |"]
    for shape in SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            found = shape.read(Path(folder))
        solutions, prefixes = len(found.solutions), len(found.prefixes)
        rows.append(
            f"| {shape.name} | {shape.fields} | {len(found.questions)} questions, {solutions} solutions, "
            f"{prefixes} scored prefixes; labels: {found.target} |"
        )
    return "\n".join(rows)


_PLACE = re.compile(r"(<!-- shapes -->\n).*?(<!-- end -->)", re.DOTALL)


def written(text: str) -> str:
    """Return the page with the table of today."""
    return _PLACE.sub(lambda found: f"{found[1]}{table()}\n{found[2]}", text)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(table() + "\n")
