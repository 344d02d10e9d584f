"""Whether solutions answer their own questions, and whether questions repeat, by their texts.

Some public files pair the samples of a batch with the questions of their neighbours. All numbers about such a file are
meaningless, and no number shows it. In other files every question occurs twice, which makes intervals too narrow.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prmcal.db.statistics.intervals import Estimate, bounded_interval
from prmcal.db.text.formats import counted
from prmcal.db.text.overview import quantity
from prmcal.registry.messages import excerpt
from prmcal.registry.reading.shapes import Solution

_WORD = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]{3,}")
_OTHERS = 8  # questions that each solution is compared with
_SHORTEST_QUESTION, _SHORTEST_TEXT = 5, 20  # words
_FEWEST, _MOST, _SOLUTIONS = 20, 2_000, 4  # questions, and solutions of each
_SHORTEST_REPEAT, _MOST_REPEATS = 20, 4  # characters of a text, and questions that have it
_SOUND = 0.8
"""In sound files, the own question wins .98 of the comparisons; with half of the pairs wrong, it wins .75."""
_Records = dict[tuple[str, Any], list[Solution]]


@dataclass(frozen=True)
class OwnWins(Estimate):
    """The share of comparisons that a solution's own question wins, with its 95% interval over questions."""

    questions: int


def without_repeats(solutions: Sequence[Solution]) -> tuple[list[Solution], str]:
    """Give questions with the same text one name, and leave out copies of records. A sentence says so.

    The solutions of a record are in its list, or they are all rows with the same question. A copy has the same
    solutions, scores and labels as an earlier record.
    """
    records: _Records = {}
    for solution in solutions:
        place = solution["place"] if "number" in solution else None
        records.setdefault((solution["question"], place), []).append(solution)
    first_names, repeats = _first_names(records), dict[str, str]()
    originals: list[Solution] = []
    contents = set[tuple[str, ...]]()
    for (name, _), record in records.items():
        values = [repr((_text(solution), solution.get("score"), solution.get("label"))) for solution in record]
        content = first_names[name], *sorted(values)
        if name != first_names[name] or content in contents:
            repeats.setdefault(first_names[name], name)
        if content not in contents:
            originals += [{**solution, "question": first_names[name]} for solution in record]
        contents.add(content)
    if not repeats:
        return originals, ""
    pair = " and ".join(excerpt(name, 30) for name in dict.fromkeys(next(iter(repeats.items()))))
    return originals, (
        f"{counted(len(repeats), 'text')} of questions repeat, such as that of {pair}: equal texts are one question, "
        "and equal solutions count once."
    )


def _first_names(records: _Records) -> dict[str, str]:
    """Return for each question the first question with the same text; itself if it has no text or a short one.

    If a question has only a name, its text is the text of its solutions. A text that most questions share, such as an
    instruction, is none of theirs.
    """
    name_by_text, first_names = dict[str, str](), dict[str, str]()
    for (name, _), record in records.items():
        question_text = record[0].get("asked") or (name if " " in name else "\n".join(sorted(map(_text, record))))
        text = " ".join(str(question_text).split())
        first_name = name_by_text.setdefault(text if len(text) >= _SHORTEST_REPEAT else name, name)
        first_names.setdefault(name, first_name)
    is_shared = len(set(first_names.values())) * _MOST_REPEATS < len(first_names)
    return {name: name for name in first_names} if is_shared else first_names


def _text(solution: Solution) -> str:
    return solution.get("text") or "\n".join(solution.get("steps") or ())


def own_question_wins(solutions: Sequence[Solution]) -> OwnWins | None:
    """Return how often a solution shares more with its own question than with another one, over questions.

    The measure is the weight of the question's words and numbers in the text; rare ones weigh more. It is None if fewer
    than 20 questions have texts that are long enough.
    """
    words: dict[str, set[str]] = {}
    for solution in solutions:
        question_text = str(solution.get("asked") or solution["question"]).lower()
        words.setdefault(solution["question"], set(_WORD.findall(question_text)))
    names = [name for name, question_words in words.items() if len(question_words) >= _SHORTEST_QUESTION][:_MOST]
    if len(names) < _FEWEST:
        return None
    counts = Counter(word for name in names for word in words[name])
    weights = [{word: math.log(len(names) / counts[word]) for word in words[name]} for name in names]
    totals = [sum(word_weights.values()) or 1.0 for word_weights in weights]
    numbers, random = {name: number for number, name in enumerate(names)}, np.random.default_rng(0)
    wins: dict[int, list[float]] = {}
    for solution in solutions:
        question = numbers.get(solution["question"])
        if question is None or len(wins.get(question, ())) == _SOLUTIONS:
            continue
        text = set(_WORD.findall(_text(solution).lower()))
        if len(text) < _SHORTEST_TEXT:
            continue
        other_questions = (question + 1 + random.integers(len(names) - 1, size=_OTHERS)) % len(names)
        shares = [
            sum(weights[number][word] for word in text & words[names[number]]) / totals[number]
            for number in (question, *other_questions.tolist())
        ]
        comparisons = [float(shares[0] > other_share) + 0.5 * (shares[0] == other_share) for other_share in shares[1:]]
        wins.setdefault(question, []).append(float(np.mean(comparisons)))
    if len(wins) < _FEWEST:
        return None
    means = np.array([np.mean(values) for values in wins.values()])
    low, high = (float(end) for end in bounded_interval(means, 0.0, 1.0))
    return OwnWins(float(means.mean()), low, high, len(means))


def alarm_of(wins: OwnWins | None) -> str:
    """Return a warning that solutions belong to other questions; empty if they do not."""
    if wins is None or wins.high >= _SOUND:
        return ""
    return (
        "Stop: the solutions do not answer their questions. A solution shares more words and numbers with its own "
        f"question than with another one in {quantity(wins)} of comparisons, where 0.98 is usual and 0.5 is chance. "
        "All that follows is about wrong pairs. Forks of search-and-learn from before January 2025 write such files "
        "for n > 1."
    )
