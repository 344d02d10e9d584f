"""The shapes of files with scored solutions: each turns a record into solutions with the same few fields.

A solution is a dict with `question`, and with those of `steps` (or `text`), `score`, `label`, `rates`, `first_error`,
`answer`, `level` and `cost` that the file has. All of it is as the file has it: numbers are read by
:mod:`prmcal.harness.audit.scored` and :mod:`prmcal.registry.recorded`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Record = Mapping[str, Any]
Solution = dict[str, Any]

QUESTIONS = ("question", "problem", "prompt", "query", "question_id", "task_id", "task", "instruction", "id")
MANY = (
    "solutions",
    "responses",
    "completions",
    "samples",
    "response",
    "generations",
    "outputs",
    "candidates",
)
ONE = ("steps", "solution", "completion", "response", "output", "text", "trajectory")
CLEAR_LABELS = (
    *("correct", "is_correct", "final_answer_correct", "passed", "is_passed", "resolved"),
    *("success", "exact_match", "acc"),
)
LABELS = (*CLEAR_LABELS, "label", "labels", "outcome", "score")
COSTS = ("cost", "costs", "tokens")
SCORES = (
    *("scores", "step_scores", "prm_scores", "process_rewards", "step_rewards", "rewards", "pred_scores"),
    *("score", "reward", "prm_score", "pred_score", "logits", "logit", "probs", "probabilities", "values"),
    *("verifier_score", "verifier_scores", "confidence"),
)
LEVELS = ("level", "difficulty")
REFERENCES = ("reference", "ground_truth", "gold_answer", "gold", "gt", "target", "final_answer", "answer")
ANSWERS = ("pred", "prediction", "extracted_answer", "preds", "predictions")


@dataclass(frozen=True)
class Shape:
    """A kind of file."""

    name: str
    """The words for it in the first lines of the answer."""
    fits: Callable[[Record], bool]
    """Tells from the first record whether the file has this shape."""
    solutions: Callable[[Record], Iterator[Solution]]
    """Yields the solutions of a record."""


def _known(record: Record, names: Iterable[str]) -> Any:
    return next((record[name] for name in names if record.get(name) is not None), None)


def _question(record: Record) -> str:
    found = _known(record, QUESTIONS)
    if isinstance(found, Mapping):  # PRM800K, lm-evaluation-harness
        found = _known(found, QUESTIONS)
    return str(found)


# Math-Shepherd: a text with a tag behind each step, and the same text with + or - in its place.
_FIRST_STEP = re.compile(r"\s*Step 1:")


def _shepherd_fits(record: Record) -> bool:
    return isinstance(record.get("label"), str) and "\u043a\u0438" in str(record.get("input", ""))


def _shepherd(record: Record) -> Iterator[Solution]:
    text, marked = str(record["input"]), str(record["label"])
    begin = _FIRST_STEP.search(text)
    question = text[: begin.start() if begin else 0].strip()
    steps = [step.strip() for step in text[len(question) :].split("\u043a\u0438") if step.strip()]
    marks = re.findall(r"([+-])\s*(?:\n|$)", marked)
    rates = [float(mark == "+") for mark in marks]
    yield {"question": question, "steps": steps, "rates": rates, "score": _field(record, SCORES)}


# openr: success rates of prefixes, as a list or as a tree.
def _openr_fits(record: Record) -> bool:
    return isinstance(record.get("reasoning_steps"), list | Mapping)


def _openr(record: Record) -> Iterator[Solution]:
    question, found = str(record["question"]), record["reasoning_steps"]
    if isinstance(found, Mapping):
        for nodes in _branches(found):
            texts = [str(node.get("text", "")) for node in nodes]
            rates = [node.get("mc_value") for node in nodes]
            yield {"question": question, "steps": texts[1:], "rates": rates, "score": _scores(nodes)}
        return
    for each in found:  # Each is a prefix of its own.
        text = str(each["solution_prefix"]).removeprefix(question).strip()
        steps = [text] if text else []
        yield {"question": question, "steps": steps, "rates": [each["mc_value"]], "score": _scores([each])}


def _branches(node: Record, above: tuple[Record, ...] = ()) -> Iterator[tuple[Record, ...]]:
    children: Sequence[Record] = node.get("children") or ()
    if not children:
        yield (*above, node)
    for child in children:
        yield from _branches(child, (*above, node))


def _scores(nodes: Sequence[Record]) -> list[Any] | None:
    scores = [_field(node, SCORES) for node in nodes]
    return None if all(each is None for each in scores) else scores


# PRM800K: humans rate the completions of each step with -1, 0 or 1.
def _prm800k_fits(record: Record) -> bool:
    label, question = record.get("label"), record.get("question")
    return isinstance(label, Mapping) and "steps" in label and isinstance(question, Mapping)


def _prm800k(record: Record) -> Iterator[Solution]:
    steps, ratings = [], []
    for step in record["label"]["steps"]:
        chosen = step.get("chosen_completion")
        options = step.get("completions") or []
        human = step.get("human_completion")
        taken = human if chosen is None and human else options[chosen or 0] if options else None
        if taken is None:
            break
        steps.append(str(taken["text"]))
        ratings.append(taken.get("rating"))
    wrong = next((place for place, rating in enumerate(ratings) if rating == -1), -1)
    yield {
        "question": _question(record),
        "steps": steps,
        "first_error": wrong,
        "label": record["label"].get("finish_reason") == "solution",
        "score": _field(record, SCORES),
    }


# ProcessBench: steps, and the first wrong one.
def _processbench_fits(record: Record) -> bool:
    return (
        isinstance(record.get("steps"), list)
        and "final_answer_correct" in record
        and _whole(record.get("label"))
    )


def _processbench(record: Record) -> Iterator[Solution]:
    yield {
        **_rest(record),
        "question": _question(record),
        "steps": record["steps"],
        "first_error": record["label"],
        "label": record["final_answer_correct"],
        "level": str(record.get("id", "")).rpartition("-")[0] or None,  # "gsm8k-12" is of the subset gsm8k.
        "score": _field(record, SCORES),
    }


# PRMBench: a changed process with the steps that are wrong.
def _prmbench_fits(record: Record) -> bool:
    return isinstance(record.get("modified_process"), list) and isinstance(record.get("error_steps"), list)


def _prmbench(record: Record) -> Iterator[Solution]:
    wrong = [int(each) - 1 for each in record["error_steps"]]  # They are counted from 1.
    yield {
        **_rest(record),
        "question": str(record.get("modified_question") or record.get("question")),
        "steps": record["modified_process"],
        "first_error": min(wrong, default=-1),
        "score": _field(record, SCORES),
    }


# lm-evaluation-harness: a document, its responses and the metrics of each.
def _lm_eval_fits(record: Record) -> bool:
    return isinstance(record.get("doc"), Mapping) and ("resps" in record or "filtered_resps" in record)


def _lm_eval(record: Record) -> Iterator[Solution]:
    question = _known(record["doc"], QUESTIONS) or record.get("doc_id")
    responses = record.get("resps") or record["filtered_resps"]
    responses = responses[0] if responses and isinstance(responses[0], list) else responses
    shared = {"question": str(question), "level": _known(record["doc"], LEVELS)}
    label = _field(record, LABELS)
    labels = label if isinstance(label, list) else [label] * len(responses)
    scores = _field(record, ("scores", "step_scores", "prm_scores", "rewards"))
    for place, text in enumerate(responses):
        yield {
            **shared,
            "text": str(text),
            "label": labels[place] if place < len(labels) else None,
            "score": scores[place] if isinstance(scores, list) and place < len(scores) else None,
        }


# inspect: samples with scores by scorer.
def _inspect_fits(record: Record) -> bool:
    return isinstance(record.get("scores"), Mapping) and "input" in record and "target" in record


def _inspect(record: Record) -> Iterator[Solution]:
    given = record["input"]
    question = given if isinstance(given, str) else given[-1].get("content")
    labels = [each.get("value") for each in record["scores"].values() if isinstance(each, Mapping)]
    named = {"C": True, "I": False, "P": 0.5, "N": None}
    label = next((named.get(each, each) if isinstance(each, str) else each for each in labels), None)
    output = record.get("output") or {}
    text = output.get("completion") if isinstance(output, Mapping) else output
    metadata = record.get("metadata") or {}
    yield {
        "question": str(question),
        "text": text,
        "label": label,
        "score": _field(metadata, SCORES),
        "level": _known(metadata, LEVELS),
    }


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _field(record: Record, names: Sequence[str]) -> Any:
    return next((record[name] for name in names if name in record), None)


def _rest(record: Record) -> Solution:
    return {"level": _known(record, LEVELS), "cost": record.get("cost", record.get("tokens"))}


SHAPES = (
    Shape("Math-Shepherd (a tag behind each step)", _shepherd_fits, _shepherd),
    Shape("success rates of openr", _openr_fits, _openr),
    Shape("PRM800K", _prm800k_fits, _prm800k),
    Shape("ProcessBench", _processbench_fits, _processbench),
    Shape("PRMBench", _prmbench_fits, _prmbench),
    Shape("samples of lm-evaluation-harness", _lm_eval_fits, _lm_eval),
    Shape("samples of inspect", _inspect_fits, _inspect),
)
"""Files with names of their own. All others are read by the kinds of values in their fields."""
