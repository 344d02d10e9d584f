"""The solutions as data sets have them whose steps are marked as right or wrong, or have success rates."""

from __future__ import annotations

import json
from typing import Any

from tests.harness.audit.solutions import GROUPS, SOLUTIONS, Files, lines, scores

_TAG = "\u043a\u0438"


def processbench() -> Files:
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
    return {"gsm8k.json": json.dumps(labels).encode(), "scores.jsonl": scores(prefix="gsm8k-")}


def prmbench() -> Files:
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
    return {"prmbench_preview.jsonl": lines(labels), "qwen_prm.jsonl": lines(scores)}


def prm800k() -> Files:
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
    return {"phase2_test.jsonl": lines(records)}


def math_shepherd() -> Files:
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
    return {"math-shepherd.jsonl": lines(records)}


def trl() -> Files:
    records = [
        {
            "prompt": each.question,
            "completions": each.steps,
            "labels": [place not in each.wrong_steps for place in range(1, len(each.steps) + 1)],
            "scores": each.scores,
        }
        for each in SOLUTIONS
    ]
    return {"math_shepherd_of_trl.jsonl": lines(records)}


def openr_lists() -> Files:
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


def openr_trees() -> Files:
    records = []
    for place, group in enumerate(GROUPS):
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
