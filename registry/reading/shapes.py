"""The shapes of files with scored solutions: each turns a record into solutions with the same few fields.

A solution is a dict with `question` and, if the file has them, `steps` (or `text`), `score`, `label`, `rates`,
`first_error`, `right` (of each step), `answer`, `level` and `cost`. Values are unchanged: numbers are read by
:mod:`prmcal.harness.audit.scored` and :mod:`prmcal.registry.recorded`.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prmcal.errors import DataError
from prmcal.registry.grading import without_working
from prmcal.registry.messages import shown
from prmcal.registry.reading.records import Record
from prmcal.registry.reading.roles import COSTS, LABELS, LEVELS, PREFIXES, QUESTIONS, RATES, SCORES
from prmcal.steps import STEP_SEPARATOR, split_steps

Content = Mapping[str, Any]
"""The fields of a record."""
Solution = dict[str, Any]


@dataclass(frozen=True)
class Shape:
    """A kind of file."""

    name: str
    """The words for it in the first lines of the answer."""
    fits: Callable[[Content], bool]
    """Tells from the first record whether the file has this shape."""
    values: Callable[[Content], Iterator[Solution]]
    """Yields the values of each solution of a record that its names alone do not tell."""

    def solutions(self, record: Content) -> Iterator[Solution]:
        """Yield the solutions of a record. It may have scores, a level and a cost by their usual names."""
        shared = {"score": SCORES, "level": LEVELS, "cost": COSTS}
        by_name = {role: first_value(record, names) for role, names in shared.items()}
        yield from ({**by_name, **solution} for solution in self.values(record))


def first_value(record: Content, names: Iterable[str]) -> Any:
    """Return the first of some fields that has a value; None if none has."""
    return next((record[name] for name in names if record.get(name) is not None), None)


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
    yield {"question": question, "steps": steps, "rates": rates}


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
    scores = [first_value(node, SCORES) for node in nodes]
    return None if all(score is None for score in scores) else scores


# The authors' success rates, and those of `prmcal export`: a record for each prefix.
def _prefixes_fits(record: Content) -> bool:
    return "question" in record and bool(record.keys() & set(PREFIXES)) and bool(record.keys() & set(RATES))


def _prefixes(record: Content) -> Iterator[Solution]:
    steps = split_steps(str(first_value(record, PREFIXES) or ""))
    rates = [first_value(record, RATES)]
    yield {"question": str(record["question"]), "steps": steps, "rates": rates}


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
        "question": str(first_value(record["question"], QUESTIONS)),
        "steps": steps,
        "first_error": first_error,
        "label": record["label"].get("finish_reason") == "solution",
    }


# ProcessBench: steps, and the first wrong one.
def _processbench_fits(record: Content) -> bool:
    has_steps = isinstance(record.get("steps"), list)
    return has_steps and "final_answer_correct" in record and type(record.get("label")) is int


def _processbench(record: Content) -> Iterator[Solution]:
    yield {
        "question": str(first_value(record, QUESTIONS)),
        "steps": record["steps"],
        "first_error": record["label"],
        "label": record["final_answer_correct"],
        "level": str(record.get("id", "")).rpartition("-")[0] or None,  # "gsm8k-12" is of the subset gsm8k.
    }


# PRMBench: a changed process, and which of its steps are wrong. Its own tool writes scores of several kinds.
def _prmbench_fits(record: Content) -> bool:
    return isinstance(record.get("modified_process"), list) and isinstance(record.get("error_steps"), list)


def _prmbench(record: Content) -> Iterator[Solution]:
    wrong_steps = {int(number) - 1 for number in record["error_steps"]}  # They are counted from 1.
    scores = first_value(record, SCORES)
    yield {
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
    yield {"question": str(record["prompt"]), "steps": record["completions"], "right": record["labels"]}


# lm-evaluation-harness: a document, its responses and the metrics of each.
_METRIC = "metric of the label"
_SHARE = "softmax for "
"""The name of the scores of a log of options begins with this, and ends with a metric."""
_LENGTHS: Mapping[str, tuple[str, Callable[[str], int]]] = {
    "acc": ("", lambda option: 1),
    "acc_norm": (" per character", len),
    "acc_bytes": (" per byte", lambda option: len(option.encode())),
}
"""The metrics of multiple choice, and what they divide the log-likelihood of an option by."""


def _lm_eval_fits(record: Content) -> bool:
    return isinstance(record.get("doc"), Mapping) and ("resps" in record or "filtered_resps" in record)


def _lm_eval(record: Content) -> Iterator[Solution]:
    doc, level = record["doc"], first_value(record["doc"], LEVELS)
    if options := _options(record):
        # Documents with the same question can have other options.
        yield {"question": json.dumps(doc, ensure_ascii=False), "level": level, **_choice(record, options)}
        return
    responses = record.get("resps") or record["filtered_resps"]
    responses = responses[0] if responses and isinstance(responses[0], list) else responses
    label = first_value(record, (record.get(_METRIC, ""), *LABELS, *(record.get("metrics") or ())))
    # One metric of several responses is that of a vote or of the first one, so the answers are graded.
    has_labels = len(responses) == 1 or isinstance(label, list)
    reference = first_value({"target": record.get("target"), **doc}, ("answer", "target"))
    shared = {
        "question": str(first_value(doc, QUESTIONS) or record.get("doc_id")),
        "level": level,
        "reference": None if has_labels else without_working(str(reference)),
    }
    scores = first_value(record, ("scores", "step_scores", "prm_scores", "rewards"))
    if len(responses) == 1 and not (scores and isinstance(scores[0], list)):
        scores = [scores]
    for place, text in enumerate(responses):
        yield {
            **shared,
            "text": str(text),
            "label": (label[place] if isinstance(label, list) else label) if has_labels else None,
            "score": scores[place] if isinstance(scores, list) and place < len(scores) else None,
        }


def _options(record: Content) -> list[tuple[str, str, float]]:
    """Return the context, the text and the log-likelihood of each option; nothing if the responses are texts.

    Such a response is a log-likelihood, and whether greedy decoding writes the option. In a table, `arguments` end with
    empty ones if other records have more options.
    """
    pairs = record.get("filtered_resps") or [response[0] for response in record["resps"]]
    if not all(isinstance(pair, list) and len(pair) == 2 and str(pair[1]) in ("True", "False") for pair in pairs):
        return []
    requests = record.get("arguments") or [("", "")] * len(pairs)
    requests = requests.values() if isinstance(requests, Mapping) else requests
    texts = [request.values() if isinstance(request, Mapping) else request or () for request in requests]
    contexts = [[*map(str, text), "", ""] for text in texts]
    return [(text[0], text[1].lstrip(), float(pair[0])) for text, pair in zip(contexts, pairs, strict=False)]


def _choice(record: Content, options: Sequence[tuple[str, str, float]]) -> Solution:
    """Return the label of the likeliest option, and as its score its share of the likelihoods of all options."""
    metric = record.get(_METRIC) or "acc"
    _, length = _LENGTHS[metric]
    # The metric of mutual information needs the options without a context, too.
    options = [option for option in options if option[0]] or options
    values = [value / max(length(text), 1) for _, text, value in options]
    likeliest = values.index(max(values))
    is_target = str(record.get("target")) in (str(likeliest), options[likeliest][1])
    score = 1 / sum(math.exp(value - values[likeliest]) for value in values)
    return {"score": score, "label": record.get(metric, is_target), "field": _SHARE + metric}


def with_share(record: Content, field: str) -> Content:
    """Return a record of such a log with the share of its likeliest option, if an audit has called this its scores."""
    metric = field.removeprefix(_SHARE)
    options = _options(record) if metric in _LENGTHS and metric != field and _lm_eval_fits(record) else []
    return {**record, field: _choice({**record, _METRIC: metric}, options)["score"]} if options else record


def of_lm_eval(records: Sequence[Record], source: str, label: str | None) -> tuple[list[Record], str]:
    """Return one filter of a log of lm-evaluation-harness, and a sentence on its choices. Other files are unchanged.

    `label` names the filter or the metric. Raises a DataError if several filters are left, or if no metric says whether
    a response is right.
    """
    logs = [row if isinstance(row, Mapping) and _lm_eval_fits(row) else {} for _, row in records]
    filters = list(dict.fromkeys(str(log["filter"]) for log in logs if log.get("filter") is not None))
    if len(filters) > 1 and label not in filters:
        raise DataError(
            f"{source}: the filters '{filters[0]}' and '{filters[1]}' give different labels. Say which to use: --label "
            f"{filters[0]} or --label {filters[1]}."
        )
    if label in filters:
        records = [record for record, log in zip(records, logs, strict=True) if log.get("filter", label) == label]
        logs, label = [log for log in logs if log.get("filter", label) == label], None
    log = next(filter(None, logs), {})
    options = _options(log) if log else []
    if len(options) == 1 or any("perplexity" in name for name in log):
        raise DataError(
            f"{source} has the log-likelihood of one text for each document, so there is no choice that is right or "
            "wrong. Audit a task with options, or one with generated texts and a file of their scores."
        )
    metrics = [name for name in _LENGTHS if name in log] if options else log.get("metrics") or [*log]
    if label and log and label not in (metrics if options else log):
        raise DataError(
            f"{source}: '{label}' cannot be the label. Name another: --label {' or --label '.join(metrics)}."
        )
    metric, words = label, ""
    if options:
        metric = label or next(iter(metrics), None)
        per = _LENGTHS[metric or "acc"][0]
        others = "".join(f", or --label {name}" for name in metrics if name != metric)
        words = f" Score: the softmax of the log-likelihoods{per} of the options at the likeliest one."
        words += f" Label: '{metric or 'target'}'{others}."
        if shares := [log[metric] for log in logs if metric in log and log[metric] not in (0, 1)]:
            raise DataError(
                f"{source}: '{metric}' is {shown(shares[0])}, a share of the likelihoods and no verdict on the option. "
                "Audit a task whose metric is 0 or 1."
            )
    rows = zip(records, logs, strict=True)
    return [(place, {**row, _METRIC: metric} if log else row) for (place, row), log in rows], words


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
    score, level = first_value(metadata, SCORES), first_value(metadata, LEVELS)
    yield {"question": question, "text": text, "label": label, "score": score, "level": level}


def _message(message: Content) -> str:
    """Return the text of a message, whose content can be a list of parts such as pictures."""
    content = message.get("content")
    pieces = content if isinstance(content, list) else [{"text": content}]
    return "\n".join(str(piece["text"]) for piece in pieces if piece.get("text"))


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
