"""Scored solutions as people have them: the same ones in many shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

QUESTIONS, SOLUTIONS = 40, 4


def solutions(seed: int = 0, *, shift: float = 0.8) -> list[dict[str, Any]]:
    """Return solutions whose scores are the chance of success, moved by `shift` on the scale of log-odds."""
    random = np.random.default_rng(seed)
    found = []
    for question in range(QUESTIONS):
        ability = random.normal(0, 1.5)
        for number in range(SOLUTIONS):
            steps = int(random.integers(2, 6))
            right = bool(random.random() < 1 / (1 + np.exp(-ability)))
            drift = np.linspace(0, 2.0 if right else -2.0, steps)
            logits = ability + shift + drift + random.normal(0, 0.3, steps)
            found.append(
                {
                    "question": f"What is {question}+{question}?",
                    "number": number,
                    "steps": [f"step {place} of {question}.{number}" for place in range(steps)],
                    "scores": [float(each) for each in (1 / (1 + np.exp(-logits))).round(6)],
                    "right": right,
                    "wrong": -1 if right else int(random.integers(0, steps)),
                }
            )
    return found


def grouped() -> list[list[dict[str, Any]]]:
    found = solutions()
    return [found[start : start + SOLUTIONS] for start in range(0, len(found), SOLUTIONS)]


def lists_of_steps() -> list[dict[str, Any]]:
    return [
        {
            "question": group[0]["question"],
            "steps": [each["steps"] for each in group],
            "scores": [each["scores"] for each in group],
            "correct": [each["right"] for each in group],
        }
        for group in grouped()
    ]


def objects() -> list[dict[str, Any]]:
    return [
        {
            "question": group[0]["question"],
            "solutions": [
                {"steps": each["steps"], "step_scores": each["scores"], "correct": each["right"]} for each in group
            ],
        }
        for group in grouped()
    ]


def flat() -> list[dict[str, Any]]:
    return [
        {"question": each["question"], "steps": each["steps"], "scores": each["scores"], "passed": each["right"]}
        for each in solutions()
    ]


def rows_of_steps() -> list[dict[str, Any]]:
    return [
        {
            "question": each["question"],
            "solution": each["number"],
            "step": step,
            "score": score,
            "correct": int(each["right"]),
        }
        for each in solutions()
        for step, score in enumerate(each["scores"], start=1)
    ]


def processbench() -> list[dict[str, Any]]:
    return [
        {
            "id": f"math-{place}",
            "generator": "a model",
            "problem": each["question"],
            "steps": each["steps"],
            "final_answer_correct": each["right"],
            "label": each["wrong"],
        }
        for place, each in enumerate(solutions())
    ]


def scores_of_processbench() -> list[dict[str, Any]]:
    return [{"id": f"math-{place}", "scores": each["scores"]} for place, each in enumerate(solutions())][::-1]


def processbench_with_scores() -> list[dict[str, Any]]:
    return [{**row, "scores": each["scores"]} for row, each in zip(processbench(), solutions(), strict=True)]


def whole_solutions() -> list[dict[str, Any]]:
    """Agents with rewards and a verifier: no steps, no texts."""
    return [
        {"task": each["question"], "verifier_score": each["scores"][-1], "resolved": each["right"]}
        for each in solutions()
    ]
