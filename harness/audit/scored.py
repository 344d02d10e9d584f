"""The rows of an audit: one for each scored prefix of a file or a run, and the words that say how it was read."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from prmcal.db.queries.trajectories import scored_places, scored_prefixes
from prmcal.db.run_folder import RECORD_FILE
from prmcal.errors import DataError
from prmcal.harness.storage.folder import RunFolder
from prmcal.log_odds import probability
from prmcal.registry.grading import grade_answer
from prmcal.registry.grading.extraction import MARKED, find_answer
from prmcal.registry.messages import shown
from prmcal.registry.reading.records import Record
from prmcal.registry.reading.shapes import Solution
from prmcal.registry.reading.solutions import Fields, Scale, is_number, share_of, solutions_of
from prmcal.steps import split_steps

FIRST = "reward of the first solution"
OUTCOME = "outcome of the first solution minus its reward"

Target = Literal["success rate", "outcome", "first error", "step"]


@dataclass(frozen=True, eq=False)
class Scored:
    """Scored solutions."""

    prefixes: pd.DataFrame
    """One row for each prefix with a score: question and solution (numbers), step (0: the bare question), steps (T),
    score (as in the file), reward (in [0, 1]), and label in [0, 1]."""
    solutions: pd.DataFrame
    """One row for each solution: question, solution, steps, label (of the whole one), answer, level, cost and
    reward (of the whole one)."""
    questions: tuple[str, ...]
    """The texts or names of the questions by their numbers."""
    target: Target
    scale: Scale
    reading: tuple[str, ...]
    """Sentences that say how the file was read."""
    alarm: str = ""
    """The alarm of an earlier audit, whose questions these do not resemble; empty if there is none."""

    @property
    def of_questions(self) -> pd.DataFrame:
        """The values by which an alarm compares questions: one column each, one row for each question. May be NaN."""
        first = self.solutions.drop_duplicates("question")
        reward = first["reward"].astype(float)
        return pd.DataFrame({FIRST: reward, OUTCOME: first["label"].astype(float) - reward})


def scored(records: Sequence[Record], source: str, fields: Fields) -> Scored:
    """Turn the records of a file into rows.

    Raises a DataError if the file has no scores or labels, or if it can be read in two ways. The message names both and
    the option that decides.
    """
    found, words = solutions_of(records, source, fields)
    return rows_of(found, source, fields, words)


def rows_of(found: Sequence[Solution], source: str, fields: Fields, words: Sequence[str]) -> Scored:
    """Turn solutions with the values of a file into rows of numbers. `words` say how the file was read."""
    numbers: dict[str, int] = {}
    seen: dict[int, int] = {}
    rows: list[tuple[Any, ...]] = []
    whole: list[dict[str, Any]] = []
    unlike: list[str] = []
    target: Target = next(
        (name for name, key in _MARKS.items() if any(each.get(key) not in (None, []) for each in found)),
        "outcome",
    )
    counts = [_step_count(each) for each in found]
    over = [_scores_over(each, count) for each, count in zip(found, counts, strict=True)]
    bare_is_scored = over.count(1) > over.count(0)
    for each, count, more in zip(found, counts, over, strict=True):
        question = numbers.setdefault(each["question"], len(numbers))
        index = seen[question] = seen.get(question, -1) + 1
        if more not in (None, int(bare_is_scored)):
            unlike.append(str(each.get("place")))
            if more in (0, 1) or len(unlike) <= _FEW_UNLIKE * len(found):
                count = len(each["score"]) - bare_is_scored
        scores, steps = _aligned(each.get("score"), count, each, source)
        text = each.get("text") or "\n\n".join(each.get("steps") or ())
        answer = each.get("answer")
        if answer is None and text and (read := find_answer(text, MARKED)):
            answer = read.text
        outcome = share_of(each.get("label"))
        if outcome is None and each.get("reference") is not None:
            reference = str(each["reference"])
            outcome = float(answer is not None and grade_answer(str(answer), reference) == "correct")
        labels = _labels(each, target, steps, outcome)
        for step, (score, label) in enumerate(zip(scores, labels, strict=True)):
            if score is not None and label is not None:
                rows.append((question, index, step, steps, score, label))
        last = scores[-1] if scores else None
        worst = min((label for label in labels if label is not None), default=None)
        whole.append(
            {
                "question": question,
                "solution": index,
                "steps": steps,
                "label": worst if target in ("first error", "step") else outcome,
                "score": last,
                "answer": answer,
                "level": each.get("level"),
                "cost": each.get("cost"),
            }
        )
    prefixes = pd.DataFrame(rows, columns=["question", "solution", "step", "steps", "score", "label"])
    if prefixes.empty:
        raise DataError(
            f"{source} has no prefix with both a score and a label. Add the file that has the other: prmcal audit "
            f"{source} OTHER."
        )
    scale = fields.scale or _scale(prefixes["score"].to_numpy(np.float64), source)
    prefixes["reward"] = _rewards(prefixes["score"].to_numpy(np.float64), scale, source)
    solutions = pd.DataFrame(whole)
    scores = solutions["score"].to_numpy(np.float64)
    solutions["reward"] = _rewards(scores, scale, source)
    bare = int((prefixes["step"] == 0).sum())
    words = [
        *words,
        f"Read: {len(numbers):,} questions, {len(solutions):,} solutions, {len(prefixes):,} scored prefixes"
        f"{'' if bare else ' (none of the bare question)'}.",
        f"Scores: {'probabilities' if scale == 'probability' else 'log-odds'}, "
        f"{prefixes['score'].min():.3g} to {prefixes['score'].max():.3g}. Labels: {_TARGETS[target]}, mean "
        f"{prefixes['label'].mean():.3f}.",
    ]
    if unlike:
        words.append(
            f"The scores say how many steps {len(unlike):,} texts have, such as that of {unlike[0]}."
        )
    return Scored(prefixes, solutions, tuple(numbers), target, scale, tuple(words))


_FEW_UNLIKE = 0.1
"""The largest share of texts whose blank lines are not their steps. Their scores say how many steps they have."""
_MARKS: dict[Target, str] = {"success rate": "rates", "first error": "first_error", "step": "right"}
_TARGETS: dict[Target, str] = {
    "success rate": "success rates of prefixes",
    "outcome": "the outcome of the whole solution, as one draw for each of its prefixes",
    "first error": "whether every step so far is right",
    "step": "whether the step is right",
}


def _step_count(solution: Solution) -> int | None:
    steps = solution.get("steps")
    if steps is None and solution.get("text"):
        steps = split_steps(solution["text"])
    return None if steps is None else len(steps)


def _scores_over(solution: Solution, steps: int | None) -> int | None:
    """Return how many more scores than steps a text has; None if its steps are not those that a reader guesses."""
    scores = solution.get("score")
    guessed = steps is not None and solution.get("text") and isinstance(scores, list) and len(scores) > 1
    return len(scores) - (steps or 0) if guessed and scores else None


def _aligned(
    given: Any, steps: int | None, solution: Solution, source: str
) -> tuple[list[float | None], int]:
    """Return the score of each of the T + 1 prefixes, None where there is none, and T."""
    if given is None:
        return [None] * ((steps or 1) + 1), steps or 1
    values = given if isinstance(given, list) else [given]
    if len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    count = len(values) if steps is None else steps
    if any(value is not None and not (is_number(value) and math.isfinite(value)) for value in values):
        raise DataError(f"{source}: a score must be a number or null. Got {shown(given)}.")
    if len(values) not in (1, count, count + 1):
        raise DataError(
            f"{source}, {solution['place']}: a solution of {count} steps has {len(values)} scores. "
            f"There must be {count}, or {count + 1} with the bare question, or one for the whole solution."
        )
    return [None] * (count + 1 - len(values)) + list(values), count


def _labels(solution: Solution, target: Target, steps: int, outcome: float | None) -> Sequence[float | None]:
    if target == "outcome":
        return [outcome] * (steps + 1)
    if target == "first error":
        wrong = solution.get("first_error")
        marks = [] if wrong is None else [wrong < 0 or step < wrong for step in range(steps)]
    else:
        marks = solution.get(_MARKS[target]) or []
    values = [None if each is None else float(each) for each in marks]
    return [None] * (steps + 1 - len(values)) + values if len(values) <= steps + 1 else [None] * (steps + 1)


def _scale(scores: np.ndarray[Any, Any], source: str) -> Scale:
    inside = (scores >= 0) & (scores <= 1)
    if inside.all():
        return "probability"
    if inside.mean() > 0.9:
        outside = scores[~inside]
        raise DataError(
            f"{source}: {inside.sum():,} scores lie in [0, 1], as probabilities do, and {len(outside):,} do not, such "
            f"as {outside[0]:g}. Say what they are: --as probability or --as logit."
        )
    return "logit"


def _rewards(scores: np.ndarray[Any, Any], scale: Scale, source: str) -> np.ndarray[Any, Any]:
    if scale == "logit":
        return probability(scores)
    outside = (scores < 0) | (scores > 1)
    if outside.any():
        raise DataError(f"{source}: a probability must be in [0, 1]. Got {scores[outside][0]:g}.")
    return scores


_KINDS = ("llm", "prm", "dataset", "split")
_TEST = "test"


def is_run(path: Path) -> bool:
    """Return whether a path is the output folder of a run."""
    return (path / RECORD_FILE).is_file()


def run_solutions(directory: Path, only: Mapping[str, Sequence[str]]) -> tuple[list[Solution], str]:
    """Return the solutions of one LLM, PRM, data set and split of a run, and a sentence that says which.

    Raises a DataError if the run has nothing that is scored and has follow-ups, or if several places are left. The
    message names the choices. Raises a RunError or a DatabaseError if the folder has no readable results.

    `only` has the names that are wanted for ``llm``, ``prm``, ``dataset`` and ``split``. Without a split, it is that of
    the test questions if there is one. The field `asked` has the text of the question.
    """
    published = RunFolder(directory).results()
    place = _chosen(scored_places(published), directory, only)
    trajectories, prefixes = scored_prefixes(published, place)
    prefixes["rate"] = prefixes["successes"].astype("Float64") / prefixes["follow_ups"]
    prefixes = prefixes.astype({"logit": "float64", "rate": "float64"})
    by_trajectory = dict(tuple(prefixes.groupby(["question_id", "trajectory"], sort=False)))
    solutions = [
        _solution(row, own)
        for row in trajectories.itertuples()
        if (own := by_trajectory.get((row.question_id, row.trajectory))) is not None
    ]
    words = (
        f"Run {directory}: LLM {place['llm']}, PRM {place['prm']}, data set {place['dataset']}, {place['split']} "
        "questions."
    )
    return solutions, words


def _chosen(places: pd.DataFrame, directory: Path, only: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the place that is wanted."""
    if places.empty:
        raise DataError(f"{directory} has no rewards with success counts yet. Finish the run: prmcal run.")
    if unknown := only.keys() - set(_KINDS):
        raise DataError(f"A place of a run is chosen by {', '.join(_KINDS)}. Got '{min(unknown)}'.")
    for kind in _KINDS:
        names = list(dict.fromkeys(places[kind]))
        wanted = only.get(kind, [_TEST] if kind == "split" and _TEST in names else names)
        places = places[places[kind].isin(wanted)]
        if places.empty:
            raise DataError(
                f"{directory} has no {kind} '{wanted[0]}' with scores and success counts. It has: {', '.join(names)}."
            )
    several = {kind: names for kind in _KINDS if len(names := list(dict.fromkeys(places[kind]))) > 1}
    if several:
        listed = "; ".join(f"{kind} {', '.join(names)}" for kind, names in several.items())
        choice = " ".join(f"--only {kind}={names[0]}" for kind, names in several.items())
        raise DataError(
            f"{directory} has several places, and an audit is about one scorer of one LLM: {listed}. Choose one, such "
            f"as {choice}"
        )
    if len(places) > 1:
        raise DataError(
            f"{directory} has {len(places)} scores of this place, with other arguments of the PRM, and an audit is "
            "about one of them. Write its scores to a file, and audit this."
        )
    return {str(name): value for name, value in places.iloc[0].items()}


def _solution(row: Any, own: pd.DataFrame) -> Solution:
    logits: list[float | None] = [None] * (row.steps + 1)
    rates: list[float | None] = [None] * (row.steps + 1)
    for step, logit, rate in zip(own["step"], own["logit"], own["rate"], strict=True):
        logits[step] = None if math.isnan(logit) else logit
        rates[step] = None if math.isnan(rate) else rate
    texts = split_steps(row.text) if isinstance(row.text, str) else []
    return {
        "question": row.question_id,
        "asked": row.question,
        "steps": texts if len(texts) == row.steps else [""] * int(row.steps),
        "score": logits,
        "rates": rates,
        "label": bool(row.correct),
        "answer": row.answer or "",
        "level": row.question_level,
        "cost": int(row.tokens),
    }
