"""The solutions as programs write them that sample and score: with an outcome or a score of each whole solution."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from typing import Any

from tests.harness.audit.solutions import GROUPS, SOLUTIONS, Files, Solution, lines


def search_and_learn() -> Files:
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
        for place, group in enumerate(GROUPS)
    ]
    return {"best_of_n_completions.jsonl": lines(records)}


def openr_paths(end_of_step: str = "\n\n") -> Files:
    """Return records as in the published files: the truth is a worked solution, and a blank line can have spaces."""
    records = [
        {
            "question": group[0].question,
            "groundtruth": f"We add.\n\nIt is $\\boxed{{{group[0].answer}}}$ in all.",
            "result": {"majority_vote": 1, "prm_min_max": 1, "prm_min_vote": 1},
            "output": [
                {
                    "path_idx": place,
                    "text": end_of_step.join((each.steps[0].replace(" ", "\n \n", 1), *each.steps[1:])),
                    "value": each.scores,
                    "completion_tokens": len(each.text),
                }
                for place, each in enumerate(group)
            ],
        }
        for group in GROUPS
    ]
    return {"record.jsonl": lines(records)}


def compute_optimal_tts() -> Files:
    content = openr_paths(" \u043a\u0438\n")["record.jsonl"].decode()
    return {"record.jsonl": content.replace('", "value"', ' \\u043a\\u0438\\n", "value"').encode()}


def qwen_math() -> Files:
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
        for place, group in enumerate(GROUPS)
    ]
    return {"math_cot.jsonl": lines(records)}


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


def lm_eval_alone() -> Files:
    """Return a log with two filters, of which the stricter one reads no answer, and the scores in a second file."""
    rows = [
        _lm_eval([each], place, kept, each.right and kept == "flexible-extract")
        for kept in ("strict-match", "flexible-extract")
        for place, each in enumerate(SOLUTIONS)
    ]
    scores = [{"doc_id": place, "scores": each.scores} for place, each in enumerate(SOLUTIONS)]
    return {"samples_gsm8k_2026-01-01.jsonl": lines(rows), "scores.jsonl": lines(scores)}


def lm_eval_repeats() -> Files:
    """Return a log with repeats. Its metric is that of the vote, so it says nothing of each response."""
    rows = [
        {**_lm_eval(group, place, "maj@2", True), "scores": [each.scores for each in group]}
        for place, group in enumerate(GROUPS)
    ]
    return {"samples_gsm8k_cot_self_consistency_2026-01-01.jsonl": lines(rows)}


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
                        "message": {"id": "c", "content": each.text, "source": "generate", "role": "assistant"},
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


def inspect_archive() -> Files:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_journal/start.json", json.dumps(_INSPECT_LOG))
        for each in _inspect_samples():
            archive.writestr(f"samples/{each['id']}_epoch_{each['epoch']}.json", json.dumps(each, indent=2))
        archive.writestr("summaries.json", "[]")
        archive.writestr("header.json", json.dumps(_INSPECT_LOG))
    return {"2026-01-01T00-00-00_sums_a.eval": file.getvalue()}


def inspect_json() -> Files:
    log = {**_INSPECT_LOG, "results": {"scores": []}, "stats": {}, "samples": _inspect_samples()}
    return {"2026-01-01T00-00-00_sums_a.json": json.dumps(log, indent=2).encode()}


def human_eval() -> Files:
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
    return {"samples.jsonl_results.jsonl": lines(records)}


def agents() -> Files:
    rows = [
        f"an agent,sum-{place // 2},{place % 2},{float(each.right)},{each.scores[-1]}"
        for place, each in enumerate(SOLUTIONS)
    ]
    return {"trials.csv": "\n".join(["agent,task,trial,resolved,verifier_score", *rows]).encode()}
