"""The shapes of files with scored solutions: each turns a record into solutions with the same few fields.

A solution is a dict with `question` and, if the file has them, `steps` (or `text`), `score`, `label`, `rates`,
`first_error`, `right` (of each step), `answer`, `level` and `cost`. Values are unchanged: numbers are read by
:mod:`prmcal.harness.audit.scored` and :mod:`prmcal.registry.recorded`.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prmcal.errors import DataError
from prmcal.registry.grading import without_working
from prmcal.registry.reading.records import Record
from prmcal.steps import STEP_SEPARATOR, split_steps

Content = Mapping[str, Any]
"""The fields of a record."""
Solution = dict[str, Any]

QUESTIONS = (
    *("question", "problem", "prompt", "query", "question_id", "problem_id", "prompt_id", "qid", "instance_id"),
    *("example_id", "task_id", "task", "instruction", "input", "id"),
)
SOLUTION_LISTS = (
    *("solutions", "responses", "completions", "samples", "response", "generations", "outputs", "candidates"),
    *("generated_answer", "generated_answers", "generated_solutions", "trajectories"),
)
SOLUTION_TEXTS = ("steps", "solution", "completion", "response", "output", "text", "trajectory")
CLEAR_LABELS = (
    *("correct", "is_correct", "final_answer_correct", "passed", "is_passed", "resolved"),
    *("success", "exact_match", "acc", "is_right", "solved"),
)
LABELS = (
    *(*CLEAR_LABELS, "label", "labels", "outcome", "verdict", "correctness", "step_labels", "human_labels"),
    *("ratings", "step_ratings", "score", "reward"),
)
IDS = (
    *("solution", "solution_id", "sample_id", "trajectory_id", "response_id", "completion_id", "rollout_id", "sample"),
    *("trajectory", "rollout", "sample_idx", "sample_index", "solution_idx", "solution_index", "candidate", "trial"),
    *("trial_index", "attempt", "attempt_id", "run", "run_id", "seed", "uid", "idx", "index"),
)
"""The names of a solution within its question."""
STEPS = ("step", "step_index", "step_idx", "step_number", "step_id")
"""The names of the number of a step, in tables with a row for each step."""
DATASETS = ("dataset", "data_set", "dataset_name", "data_name", "data_source", "benchmark", "subset")
SUBSETS = (*DATASETS, "source", "split", "task")
"""Names of data sets and their parts. Equal ids in two of them are two questions."""
MAKERS = (
    *("llm", "llm_name", "llm_id", "model", "model_name", "model_id", "model_version", "checkpoint", "generator"),
    *("generator_model", "policy", "policy_model", "solver", "agent", "agent_name"),
)
"""The names of the LLM of a solution."""
SCORERS = ("prm", "prm_name", "verifier", "verifier_name", "reward_model", "scorer", "judge", "judge_model")
"""The names of the PRM of a solution."""
COSTS = ("cost", "costs", "tokens", "completion_tokens")
SCORES = (
    *("scores", "step_scores", "prm_scores", "process_rewards", "step_rewards", "rewards", "pred_scores"),
    *("score", "reward", "prm_score", "pred_score", "logits", "logit", "probs", "probabilities", "values"),
    *("verifier_score", "verifier_scores", "confidence", "confidences", "value", "step_level_validity_scores"),
    *("probability", "prob", "p_true", "p_correct", "certainty", "conf"),
)
PREFIXES = ("reasoning_prefix", "first_pass_prefix")
RATES = ("success_prob", "accuracy")
LEVELS = ("level", "difficulty")
REFERENCES = (
    *("reference", "ground_truth", "groundtruth", "gold_answer", "gold", "gt", "truth", "correct_answer"),
    *("true_answer", "reference_answer", "expected_answer", "ground_truth_answer", "target", "final_answer"),
    "answer",
)
ANSWERS = (
    *("pred", "prediction", "extracted_answer", "preds", "predictions", "predicted_answer", "model_answer"),
    *("parsed_answer", "final_prediction", "extracted_answers", "pred_answer"),
)


@dataclass(frozen=True)
class Shape:
    """A kind of file."""

    name: str
    """The words for it in the first lines of the answer."""
    fits: Callable[[Content], bool]
    """Tells from the first record whether the file has this shape."""
    solutions: Callable[[Content], Iterator[Solution]]
    """Yields the solutions of a record."""


def first_value(record: Content, names: Iterable[str]) -> Any:
    """Return the first of some fields that has a value; None if none has."""
    return next((record[name] for name in names if record.get(name) is not None), None)


def _question(record: Content) -> str:
    question = first_value(record, QUESTIONS)
    if isinstance(question, Mapping):  # PRM800K, lm-evaluation-harness
        question = first_value(question, QUESTIONS)
    return str(question)


STEP_TAGS = ("\u043a\u0438", "<extra_0>")
"""The tags behind each step in files of Math-Shepherd, compute-optimal-tts and Qwen's PRMs."""


def steps_of_text(text: str, scores: Any) -> Solution:
    """Return a text, and its steps if they do not end at its blank lines.

    The number of scores decides. Steps can end at tags, or where the writer of the scores saw a blank line: openr sees
    none in a line with spaces.
    """
    count = len(scores) if isinstance(scores, list) else 0
    tagged = next((text.split(tag) for tag in STEP_TAGS if tag in text), ())
    steps = [step.strip() for step in tagged if step.strip()]
    if steps and count in (len(steps), len(steps) + 1):
        return {"text": "\n\n".join(steps), "steps": steps}
    pieces = [piece for piece in text.split(STEP_SEPARATOR) if piece.strip()]
    return {"text": text, "steps": pieces} if count == len(pieces) < len(split_steps(text)) else {"text": text}


# Math-Shepherd: a text with a tag behind each step, and the same text with + or - in its place.
_FIRST_STEP = re.compile(r"\s*Step 1:")


def _shepherd_fits(record: Content) -> bool:
    return isinstance(record.get("label"), str) and STEP_TAGS[0] in str(record.get("input", ""))


def _shepherd(record: Content) -> Iterator[Solution]:
    text, marked = str(record["input"]), str(record["label"])
    begin = _FIRST_STEP.search(text)
    question = text[: begin.start() if begin else 0].strip()
    steps = [step.strip() for step in text[len(question) :].split(STEP_TAGS[0]) if step.strip()]
    marks = re.findall(r"([+-])\s*(?:\n|$)", marked)
    rates = [float(mark == "+") for mark in marks]
    yield {"question": question, "steps": steps, "rates": rates, "score": _field(record, SCORES)}


# openr: success rates of prefixes, as a list or as a tree.
def _openr_fits(record: Content) -> bool:
    return isinstance(record.get("reasoning_steps"), list | Mapping)


def _openr(record: Content) -> Iterator[Solution]:
    question, prefixes = str(record["question"]), record["reasoning_steps"]
    if isinstance(prefixes, Mapping):
        for nodes in _branches(prefixes):
            texts = [str(node.get("text", "")) for node in nodes]
            rates = [node.get("mc_value") for node in nodes]
            yield {"question": question, "steps": texts[1:], "rates": rates, "score": _scores(nodes)}
        return
    for prefix in prefixes:
        text = str(prefix["solution_prefix"]).removeprefix(question).strip()
        steps = [text] if text else []
        yield {"question": question, "steps": steps, "rates": [prefix["mc_value"]], "score": _scores([prefix])}


def _branches(node: Content, above: tuple[Content, ...] = ()) -> Iterator[tuple[Content, ...]]:
    children: Sequence[Content] = node.get("children") or ()
    if not children:
        yield (*above, node)
    for child in children:
        yield from _branches(child, (*above, node))


def _scores(nodes: Sequence[Content]) -> list[Any] | None:
    scores = [_field(node, SCORES) for node in nodes]
    return None if all(score is None for score in scores) else scores


# The authors' success rates, and those of `prmcal export`: a record for each prefix.
def _prefixes_fits(record: Content) -> bool:
    return "question" in record and bool(record.keys() & set(PREFIXES)) and bool(record.keys() & set(RATES))


def _prefixes(record: Content) -> Iterator[Solution]:
    steps = split_steps(str(first_value(record, PREFIXES) or ""))
    rates = [first_value(record, RATES)]
    yield {"question": str(record["question"]), "steps": steps, "rates": rates, "score": _field(record, SCORES)}


# PRM800K: humans rate the completions of each step with -1, 0 or 1.
def _prm800k_fits(record: Content) -> bool:
    label, question = record.get("label"), record.get("question")
    return isinstance(label, Mapping) and "steps" in label and isinstance(question, Mapping)


def _prm800k(record: Content) -> Iterator[Solution]:
    steps, ratings = [], []
    for step in record["label"]["steps"]:
        chosen_index = step.get("chosen_completion")
        options = step.get("completions") or []
        human_completion = step.get("human_completion")
        if chosen_index is None and human_completion:
            completion = human_completion
        elif options:
            completion = options[chosen_index or 0]
        else:
            break
        steps.append(str(completion["text"]))
        ratings.append(completion.get("rating"))
    first_error = next((step for step, rating in enumerate(ratings) if rating == -1), -1)
    yield {
        "question": _question(record),
        "steps": steps,
        "first_error": first_error,
        "label": record["label"].get("finish_reason") == "solution",
        "score": _field(record, SCORES),
    }


# ProcessBench: steps, and the first wrong one.
def _processbench_fits(record: Content) -> bool:
    has_steps = isinstance(record.get("steps"), list)
    return has_steps and "final_answer_correct" in record and type(record.get("label")) is int


def _processbench(record: Content) -> Iterator[Solution]:
    yield {
        **_level_and_cost(record),
        "question": _question(record),
        "steps": record["steps"],
        "first_error": record["label"],
        "label": record["final_answer_correct"],
        "level": str(record.get("id", "")).rpartition("-")[0] or None,  # "gsm8k-12" is of the subset gsm8k.
        "score": _field(record, SCORES),
    }


# PRMBench: a changed process, and which of its steps are wrong. Its own tool writes scores of several kinds.
def _prmbench_fits(record: Content) -> bool:
    return isinstance(record.get("modified_process"), list) and isinstance(record.get("error_steps"), list)


def _prmbench(record: Content) -> Iterator[Solution]:
    wrong_steps = {int(number) - 1 for number in record["error_steps"]}  # They are counted from 1.
    scores = _field(record, SCORES)
    yield {
        **_level_and_cost(record),
        "question": str(first_value(record, ("original_question", "question", "modified_question"))),
        "steps": record["modified_process"],
        "right": [step not in wrong_steps for step in range(len(record["modified_process"]))],
        "level": record.get("classification"),
        "score": scores.get("step_level_validity_scores") if isinstance(scores, Mapping) else scores,
    }


# TRL: the completions of a prompt are the steps of one solution, and each has a label.
def _stepwise_fits(record: Content) -> bool:
    steps, labels, scores = (record.get(name) for name in ("completions", "labels", "scores"))
    lists = isinstance(steps, list) and isinstance(labels, list) and len(steps) == len(labels) > 0
    nested = isinstance(scores, list) and any(isinstance(score, list) for score in scores)
    return lists and "prompt" in record and all(isinstance(label, bool) for label in labels or ()) and not nested


def _stepwise(record: Content) -> Iterator[Solution]:
    shared = {"question": str(record["prompt"]), "score": _field(record, SCORES)}
    yield {**shared, "steps": record["completions"], "right": record["labels"]}


# lm-evaluation-harness: a document, its responses and the metrics of each.
def _lm_eval_fits(record: Content) -> bool:
    return isinstance(record.get("doc"), Mapping) and ("resps" in record or "filtered_resps" in record)


def _lm_eval(record: Content) -> Iterator[Solution]:
    doc = record["doc"]
    question = first_value(doc, QUESTIONS) or record.get("doc_id")
    responses = record.get("resps") or record["filtered_resps"]
    responses = responses[0] if responses and isinstance(responses[0], list) else responses
    label = _field(record, (*LABELS, *(record.get("metrics") or ())))
    # One metric of several responses is that of a vote or of the first one, so the answers are graded.
    has_labels = len(responses) == 1 or isinstance(label, list)
    reference = first_value({"target": record.get("target"), **doc}, ("answer", "target"))
    if log_likelihoods := _options(responses if len(responses) > 1 else record.get("resps")):
        likelihoods = [math.exp(likelihood - max(log_likelihoods)) for likelihood in log_likelihoods]
        score = max(likelihoods) / sum(likelihoods)
        yield {"question": str(question), "level": first_value(doc, LEVELS), "label": label, "score": score}
        return
    shared = {
        "question": str(question),
        "level": first_value(doc, LEVELS),
        "reference": None if has_labels else without_working(str(reference)),
    }
    scores = _field(record, ("scores", "step_scores", "prm_scores", "rewards"))
    if len(responses) == 1 and not (scores and isinstance(scores[0], list)):
        scores = [scores]
    for place, text in enumerate(responses):
        yield {
            **shared,
            "text": str(text),
            "label": (label[place] if isinstance(label, list) else label) if has_labels else None,
            "score": scores[place] if isinstance(scores, list) and place < len(scores) else None,
        }


def _options(responses: Any) -> list[float] | None:
    """Return the log-likelihoods of the options of a question with a choice; None if they are no such pairs."""
    pairs = [pair[0] if isinstance(pair, list) and len(pair) == 1 else pair for pair in responses or ()]
    if not all(isinstance(pair, list) and len(pair) == 2 and str(pair[1]) in ("True", "False") for pair in pairs):
        return None
    return [float(pair[0]) for pair in pairs] or None


def of_one_filter(records: Sequence[Record], source: str, filter_name: str | None) -> list[Record]:
    """Return the records of one filter. A log of lm-evaluation-harness has each response once for each filter.

    Raises a DataError if there are several filters and none of them is `filter_name`.
    """
    contents = [content for _, content in records]
    filters = [row.get("filter") if isinstance(row, Mapping) and _lm_eval_fits(row) else None for row in contents]
    names = list(dict.fromkeys(str(name) for name in filters if name is not None))
    if len(names) > 1 and filter_name not in names:
        raise DataError(
            f"{source}: the filters '{names[0]}' and '{names[1]}' give different labels. Say which to use: --label "
            f"{names[0]} or --label {names[1]}."
        )
    return [record for record, name in zip(records, filters, strict=True) if len(names) < 2 or name == filter_name]


# inspect: samples with scores by scorer.
def _inspect_fits(record: Content) -> bool:
    return isinstance(record.get("scores"), Mapping) and "input" in record and "target" in record


def _inspect(record: Content) -> Iterator[Solution]:
    prompt = record["input"]
    question = prompt if isinstance(prompt, str) else _message(prompt[-1])
    labels = [score.get("value") for score in record["scores"].values() if isinstance(score, Mapping)]
    letters = {"C": True, "I": False, "P": 0.5, "N": None}
    label = next((letters.get(label, label) if isinstance(label, str) else label for label in labels), None)
    output = record.get("output") or {}
    text = output.get("completion") if isinstance(output, Mapping) else output
    if text is None and output.get("choices"):  # Logs of older versions have the messages alone.
        text = _message(output["choices"][0]["message"])
    metadata = record.get("metadata") or {}
    score, level = _field(metadata, SCORES), first_value(metadata, LEVELS)
    yield {"question": question, "text": text, "label": label, "score": score, "level": level}


def _message(message: Content) -> str:
    """Return the text of a message, whose content can be a list of parts such as pictures."""
    content = message.get("content")
    pieces = content if isinstance(content, list) else [{"text": content}]
    return "\n".join(str(piece["text"]) for piece in pieces if piece.get("text"))


def _field(record: Content, names: Sequence[str]) -> Any:
    return next((record[name] for name in names if name in record), None)


def _level_and_cost(record: Content) -> Solution:
    return {"level": first_value(record, LEVELS), "cost": record.get("cost", record.get("tokens"))}


SHAPES = (
    Shape("Math-Shepherd (a tag behind each step)", _shepherd_fits, _shepherd),
    Shape("success rates of openr", _openr_fits, _openr),
    Shape("success rates of prefixes", _prefixes_fits, _prefixes),
    Shape("PRM800K", _prm800k_fits, _prm800k),
    Shape("ProcessBench", _processbench_fits, _processbench),
    Shape("PRMBench", _prmbench_fits, _prmbench),
    Shape("stepwise supervision of TRL (the completions are steps)", _stepwise_fits, _stepwise),
    Shape("samples of lm-evaluation-harness", _lm_eval_fits, _lm_eval),
    Shape("samples of inspect", _inspect_fits, _inspect),
)
"""Files with names of their own. All others are read by the kinds of values in their fields."""
