"""The rows of an audit: one for each scored prefix of a file or a run, and sentences on how it was read."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from prmcal.db.queries.trajectories import scored_prefixes, scored_settings
from prmcal.db.run_folder import RECORD_FILE
from prmcal.db.text.formats import counted
from prmcal.errors import DataError
from prmcal.harness.audit.pairing import OwnWins, alarm_of, own_question_wins, without_repeats
from prmcal.harness.storage.folder import RunFolder
from prmcal.registry.contracts.data import Question
from prmcal.registry.graders import LetterGrader
from prmcal.registry.grading import grade_answer
from prmcal.registry.grading.extraction import MARKED, find_answer
from prmcal.registry.messages import shown
from prmcal.registry.reading.fields import Fields
from prmcal.registry.reading.records import Record
from prmcal.registry.reading.scales import Scale, scale_of
from prmcal.registry.reading.shapes import Solution
from prmcal.registry.reading.solutions import solutions_of
from prmcal.registry.reading.values import score_of, share_of
from prmcal.steps import split_steps

FIRST = "reward of the first solution"
OUTCOME = "outcome of the first solution minus its reward"

_SHORT = 30  # characters of a text that can be an answer and no more

Target = Literal["success rate", "outcome", "first error", "step"]
_MANY_UNREAD = 0.05
"""The share of solutions without an answer above which this is told first."""
_FEW_UNLIKE = 0.1
"""The largest share of texts whose blank lines are not their steps. Their scores give the number of steps."""
_MARKS: dict[Target, str] = {"success rate": "rates", "first error": "first_error", "step": "right"}
_TARGETS: dict[Target, str] = {
    "success rate": "success rates of prefixes",
    "outcome": "outcomes of solutions",
    "first error": "whether every step so far is right",
    "step": "whether the step is right",
}
_KINDS = ("llm", "prm", "dataset", "split")
_TEST = "test"


@dataclass(frozen=True, eq=False)
class ScoredSolutions:
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
    doubts: tuple[str, ...] = ()
    """Sentences that say why the reading may be wrong."""
    field: str | None = None
    """The field with the scores, if it was found by its name and not by the shape of the file."""
    alarm: str = ""
    """Warnings that solutions belong to other questions, or that questions do not resemble an earlier audit's."""
    wins: OwnWins | None = None
    """How often solutions share more with their own questions than with others; None without long texts."""

    @property
    def of_questions(self) -> pd.DataFrame:
        """The values by which an alarm compares questions: one column each, one row for each question. May be NaN."""
        first_solutions = self.solutions.drop_duplicates("question")
        reward = first_solutions["reward"].astype(float)
        return pd.DataFrame({FIRST: reward, OUTCOME: first_solutions["label"].astype(float) - reward})


def scored_records(records: Sequence[Record], source: str, fields: Fields) -> ScoredSolutions:
    """Turn the records of a file into rows.

    Raises a DataError if the file has no scores or labels, or if two fields are possible. The message names both and
    the option.
    """
    solutions, words = solutions_of(records, source, fields)
    return rows_of(solutions, source, fields, words)


def _answer_of(solution: Solution) -> tuple[Any, str]:
    """Return the answer of a solution, or None, and where it stands."""
    text, answer = solution.get("text") or "\n\n".join(solution.get("steps") or ()), solution.get("answer")
    if answer is None and text and (extracted := find_answer(text, MARKED)):
        return extracted.text, extracted.way
    if answer is None and solution.get("reference") is not None and 0 < len(text) <= _SHORT and "\n" not in text:
        return text, "the whole text"
    return answer, "a field of its own"


def rows_of(solutions: Sequence[Solution], source: str, fields: Fields, words: Sequence[str]) -> ScoredSolutions:
    """Turn solutions with the values of a file into rows of numbers. `words` say how the file was read."""
    solutions, repeats = without_repeats(solutions)
    numbers: dict[str, int] = {}
    last_index: dict[int, int] = {}
    prefix_rows: list[tuple[Any, ...]] = []
    solution_rows: list[dict[str, Any]] = []
    unlike: list[str] = []
    marks = (name for name, key in _MARKS.items() if any(solution.get(key) not in (None, []) for solution in solutions))
    target: Target = next(marks, "outcome")
    counts, extra_scores = zip(*map(_counts, solutions), strict=True) if solutions else ((), ())
    bare_is_scored = extra_scores.count(1) > extra_scores.count(0)
    verdicts: list[tuple[bool, str, str]] = []
    unread = 0
    for solution, count, extra in zip(solutions, counts, extra_scores, strict=True):
        question = numbers.setdefault(" ".join(solution["question"].split()), len(numbers))
        index = last_index[question] = last_index.get(question, -1) + 1
        if extra not in (None, int(bare_is_scored)):
            unlike.append(str(solution.get("place")))
            if extra in (0, 1) or len(unlike) <= _FEW_UNLIKE * len(solutions):
                count = len(solution["score"]) - bare_is_scored
        scores, steps = _aligned(solution.get("score"), count, solution, source)
        answer, way = _answer_of(solution)
        outcome = share_of(solution.get("label"))
        if outcome is None and solution.get("reference") is not None:
            reference, options = str(solution["reference"]), tuple(map(str, solution.get("options") or ()))
            if options:
                verdict = LetterGrader().compare(str(answer), Question("", "", reference, options=options)).verdict
            else:
                verdict = grade_answer(str(answer), reference)
            outcome = float(answer is not None and verdict == "correct")
            verdicts.append((bool(outcome), f"{shown(answer)} ({way})", reference))
            unread += answer is None
        if outcome is not None and not 0 <= outcome <= 1:
            got = shown(solution["label"])
            raise DataError(f"{source}, {solution['place']}: a label must be in [0, 1]. Got {got}.")
        labels = _labels(solution, target, steps, outcome)
        for step, (score, label) in enumerate(zip(scores, labels, strict=True)):
            if score is not None and label is not None:
                prefix_rows.append((question, index, step, steps, score, label))
        last_score = scores[-1] if scores else None
        worst = min((label for label in labels if label is not None), default=None)
        solution_rows.append(
            {
                "question": question,
                "solution": index,
                "steps": steps,
                "label": worst if target in ("first error", "step") else outcome,
                "score": last_score,
                "answer": answer,
                "level": solution.get("level"),
                "cost": solution.get("cost"),
            }
        )
    prefixes = pd.DataFrame(prefix_rows, columns=["question", "solution", "step", "steps", "score", "label"])
    table, field = pd.DataFrame(solution_rows), solutions[0].get("field") if solutions else None
    if prefixes.empty and not (table["answer"].notna().any() and table["label"].notna().any()):
        raise DataError(
            f"{source} has no prefix with both a score and a label. Add the file with the missing ones: prmcal audit "
            f"{source} OTHER."
        )
    words = [*words]
    size = (
        f"Read: {counted(len(numbers), 'question')}, {counted(len(table), 'solution')}, "
        f"{counted(len(prefixes), 'scored prefix', 'scored prefixes')}"
    )
    if prefixes.empty:
        scale = Scale("probability")
        words.append(f"There are no scores. Labels: {_TARGETS[target]}, mean {table['label'].mean():.3f}.")
    else:
        scores = prefixes["score"].to_numpy(np.float64)
        name = str(field or "score")
        scale = scale_of(scores, prefixes["score"].tolist(), name, fields.scale, fields.reverse, source)
        words.append(
            f"Scores: {scale.words}, {prefixes['score'].min():.3g} to {prefixes['score'].max():.3g}. Labels: "
            f"{_TARGETS[target]}, mean {prefixes['label'].mean():.3f}."
        )
    try:
        prefixes, table = (
            frame.assign(reward=scale.rewards(frame["score"].to_numpy(np.float64))) for frame in (prefixes, table)
        )
    except ValueError as error:
        raise DataError(f"{source}: {error}.") from error
    if len(prefixes):
        errors = (prefixes["reward"] - prefixes["label"]).to_numpy(np.float64)
        size += f", worth {independent(errors, prefixes['question'].to_numpy()):,} independent ones"
    words.insert(-1, f"{size}.")
    if unlike:
        words.append(f"The scores say how many steps {len(unlike):,} texts have, such as that of {unlike[0]}.")
    doubts = (*_doubts(verdicts, unread), *filter(None, [repeats]))
    wins = own_question_wins(solutions)
    return ScoredSolutions(
        prefixes, table, tuple(numbers), target, scale, tuple(words), doubts, field, alarm_of(wins), wins
    )


def independent(errors: np.ndarray[Any, Any], question: np.ndarray[Any, Any]) -> int:
    """Return how many independent prefixes would have a mean error as uncertain as these prefixes have."""
    centred = errors - errors.mean()
    spread = float((np.bincount(question, weights=centred) ** 2).sum())
    count = len(errors)
    return count if spread == 0 else round(min(count, count * float((centred**2).sum()) / spread))


def _doubts(verdicts: Sequence[tuple[bool, str, str]], unread: int) -> Iterator[str]:
    """Yield why the grading of solutions may be wrong. `unread` solutions have no answer."""
    if unread > _MANY_UNREAD * len(verdicts):
        yield f"No answer was found in {unread:,} of {len(verdicts):,} solutions. They count as wrong."
    if verdicts and not any(is_right for is_right, _, _ in verdicts):
        _, answer, reference = verdicts[0]
        yield (
            f"0 of {len(verdicts):,} solutions were graded right, so the labels may be misread: the first one answers "
            f"{answer}, and the reference is {shown(reference)}. Name others: --answer FIELD --truth FIELD."
        )


def _counts(solution: Solution) -> tuple[int | None, int | None]:
    """Return the number of steps of a solution, guessed from its text if need be, and how many more scores it has."""
    steps, text, scores = solution.get("steps"), solution.get("text"), solution.get("score")
    if steps is None and text:
        steps = split_steps(text)
    if steps is None:
        return None, None
    return len(steps), len(scores) - len(steps) if text and isinstance(scores, list) and len(scores) > 1 else None


def _aligned(score_field: Any, steps: int | None, solution: Solution, source: str) -> tuple[list[float | None], int]:
    """Return the score of each of the T + 1 prefixes, None where there is none, and T."""
    if score_field is None:
        return [None] * ((steps or 1) + 1), steps or 1
    values = score_field if isinstance(score_field, list) else [score_field]
    if len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    count = len(values) if steps is None else steps
    try:
        values = [score_of(value) for value in values]
    except ValueError as error:
        raise DataError(
            f"{source}, {solution['place']}: a score must be a number or null. Got {shown(score_field)}."
        ) from error
    if len(values) not in (1, count, count + 1):
        raise DataError(
            f"{source}, {solution['place']}: a solution of {count} steps has {len(values)} scores. "
            f"There must be {count}, or {count + 1} with the bare question, or one for the whole solution."
        )
    return [None] * (count + 1 - len(values)) + list(values), count


def _labels(solution: Solution, target: Target, steps: int, outcome: float | None) -> Sequence[float | None]:
    """Return the label of each of the T + 1 prefixes, None where there is none. With too many marks, there is none."""
    if target == "outcome":
        return [outcome] * (steps + 1)
    if target == "first error":
        wrong = solution.get("first_error")
        marks = [] if wrong is None else [wrong < 0 or step < wrong for step in range(steps)]
    else:
        marks = solution.get(_MARKS[target]) or []
    if len(marks) > steps + 1:
        return [None] * (steps + 1)
    values = [None if mark is None else float(mark) for mark in marks]
    return [None] * (steps + 1 - len(values)) + values


def is_run(path: Path) -> bool:
    """Return whether a path is the output folder of a run."""
    return (path / RECORD_FILE).is_file()


def run_solutions(directory: Path, only: Mapping[str, Sequence[str]]) -> tuple[list[Solution], str]:
    """Return the solutions of one LLM, PRM, data set and split of a run, and a sentence that names them.

    Raises a DataError if the run has nothing that is scored and has follow-ups, or if several settings are left. The
    message names the choices. Raises a RunError or a DatabaseError if the folder has no readable results.

    `only` has the names to choose for ``llm``, ``prm``, ``dataset`` and ``split``. Without a split, the test questions
    are read if there are any. The field `asked` has the text of the question.
    """
    published = RunFolder(directory).results()
    setting = _chosen_setting(scored_settings(published), directory, only)
    trajectories, prefixes = scored_prefixes(published, setting)
    prefixes["rate"] = prefixes["successes"].astype("Float64") / prefixes["follow_ups"]
    prefixes = prefixes.astype({"logit": "float64", "rate": "float64"})
    by_trajectory = dict(tuple(prefixes.groupby(["question_id", "trajectory"], sort=False)))
    solutions = [
        _solution(row, prefix_rows)
        for row in trajectories.itertuples()
        if (prefix_rows := by_trajectory.get((row.question_id, row.trajectory))) is not None
    ]
    words = (
        f"Run {directory}: LLM {setting['llm']}, PRM {setting['prm']}, data set {setting['dataset']}, "
        f"{setting['split']} questions."
    )
    return solutions, words


def _chosen_setting(settings: pd.DataFrame, directory: Path, only: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the setting that `only` leaves, with its split."""
    if settings.empty:
        raise DataError(f"{directory} has no rewards with success counts yet. Finish the run: prmcal run.")
    if unknown := only.keys() - set(_KINDS):
        raise DataError(f"Choose a setting of a run by {', '.join(_KINDS)}. Got '{min(unknown)}'.")
    for kind in _KINDS:
        names = list(dict.fromkeys(settings[kind]))
        selected = only.get(kind, [_TEST] if kind == "split" and _TEST in names else names)
        settings = settings[settings[kind].isin(selected)]
        if settings.empty:
            raise DataError(
                f"{directory} has no {kind} '{selected[0]}' with scores and success counts. It has: {', '.join(names)}."
            )
    several = {kind: names for kind in _KINDS if len(names := list(dict.fromkeys(settings[kind]))) > 1}
    if several:
        listed = "; ".join(f"{kind} {', '.join(names)}" for kind, names in several.items())
        choice = " ".join(f"--only {kind}={names[0]}" for kind, names in several.items())
        raise DataError(
            f"{directory} has several settings, and an audit is about one scorer of one LLM: {listed}. Choose one, "
            f"such as {choice}"
        )
    if len(settings) > 1:
        raise DataError(
            f"{directory} has {len(settings)} sets of scores for this setting, from different arguments of the PRM. An "
            "audit takes one set. Write its scores to a file, and audit the file."
        )
    return {str(name): value for name, value in settings.iloc[0].items()}


def _solution(row: Any, prefix_rows: pd.DataFrame) -> Solution:
    logits: list[float | None] = [None] * (row.steps + 1)
    rates: list[float | None] = [None] * (row.steps + 1)
    for step, logit, rate in zip(prefix_rows["step"], prefix_rows["logit"], prefix_rows["rate"], strict=True):
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
