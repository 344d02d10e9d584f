"""The LLM and the PRM `recorded`: solutions and scores that were computed elsewhere, read from files."""

import hashlib
import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import Any, Literal

import numpy as np
from scipy.special import expit

from prmcal.errors import DataError, InvalidArgumentsError, PluginFailedError, PrmcalError
from prmcal.log_odds import log_odds
from prmcal.registry.contracts.data import Completion, Prefix, PrefixScores, Sampling
from prmcal.registry.contracts.models import LLM, PRM
from prmcal.registry.contracts.plugin import Plugin, errors_of
from prmcal.registry.grading import Answers
from prmcal.registry.messages import file_hash, is_file, shown
from prmcal.registry.reading.recordings import (
    FieldNames,
    RecordedQuestion,
    Recording,
    RowValues,
    as_one_step,
    read_recording,
)
from prmcal.registry.reading.values import is_number, leaves
from prmcal.registry.splitting import BLANK_LINE, Splitting, StepSplitting, split_text
from prmcal.steps import Step, join_steps

_READING = ("path", "solutions", "skip_bad_rows", "fields", "only", "answers", "correct_from", "logits")
"""Arguments for reading a recording, and for the places of its answers."""
_LARGEST_LOGIT = float(np.finfo(np.float32).max)


@dataclass(eq=False)
class _Recorded(Plugin):
    """A plugin that reads solutions from files."""

    path: str | list[str]
    """The file or files: see the page "Use recorded data". The last of several may have the scores of the others."""
    solutions: str = "solutions"
    """The field with a question's solutions. Without such a field, it is found by its name."""
    splitting: Splitting = BLANK_LINE
    """Where the steps of the texts end, as in the LLM `transformers`. The limits of a step count words."""
    skip_bad_rows: bool = False
    """Leave out rows that cannot be read, and warn of them."""
    fields: FieldNames | None = None
    """The fields that are not found by their names, such as ``{label: reward, cost: seconds}``. The label says whether
    a solution is right. Strategies count the cost in place of tokens."""
    only: RowValues | None = None
    """Read only rows with these values, such as ``{agent: mini}``."""

    @property
    def file_names(self) -> str:
        """The files, for error messages."""
        return self.recording().file_names

    def recording(self, score: str | None = None) -> Recording:
        """Return the recording; `score` is the field with the scores, if it is named."""
        solutions = None if self.solutions == "solutions" else self.solutions
        return Recording.of(self.path, self.fields, self.only, solutions, score)

    def check_arguments(self) -> None:
        """Raise InvalidArgumentsError if a file does not exist."""
        for path in self.recording().paths:
            if not is_file(path):
                raise InvalidArgumentsError(
                    f"There is no recording {path}. Set 'path' to a file with questions and their solutions."
                )

    def identity(self) -> dict[str, Any]:
        """Return the identity, with a hash of the content of the recording in place of the arguments that read it.

        Reference answers in the same file do not change it. If the recording cannot be read, the hash is of its bytes.
        """
        identity = super().identity()
        arguments = {name: value for name, value in identity["arguments"].items() if name not in _READING}
        try:
            content: Any = [[text, self._replayed(question)] for text, question in self._recorded_questions().items()]
        except PrmcalError:
            content = [file_hash(path) for path in self.recording().paths]
        text = json.dumps(content, default=str)
        return {**identity, "arguments": arguments, "recording": hashlib.sha256(text.encode()).hexdigest()[:16]}

    @abstractmethod
    def _recorded_questions(self) -> Mapping[str, RecordedQuestion]:
        """Return the recording by the texts of its questions."""

    @abstractmethod
    def _replayed(self, question: RecordedQuestion) -> Any:
        """Return the recorded results of a question, as JSON data."""


@dataclass(eq=False)
class RecordedLLM(_Recorded, LLM):
    """Replay the recorded completions of a policy, in their order.

    The completions of the bare question are the recorded solutions. The completions of another prefix are those that
    were recorded for this prefix. If there are none, the rest of every solution that begins with the prefix counts. The
    completion of a whole solution is empty. Sampling and seed are ignored, since the recording has fixed them.

    If the recording has verdicts, in the field `correct` or in a field that `fields` names, nothing is graded. If the
    file has no answers, other known fields are also read, such as `is_correct` or `passed`.

    Notes
    -----
    A call always begins with the first trajectory of a question. So a shard of the grid must contain all of them: set
    ``shards.trajectories`` to at least ``scaling.samples``, ``calibration.trajectories`` and the numbers of follow-ups.
    """

    version = "5"
    repeats = True

    one_step: bool = False
    """Replay each solution as a single step, without its blank lines. Use it for outcome rewards, which exist only for
    whole solutions. No follow-ups of shorter prefixes are then needed."""
    answers: Answers | None = None
    """Where the answers stand, as in the data set `jsonl`. By default the data set decides."""
    correct_from: float | None = None
    """The smallest share of a right solution, if the recording has shares or rewards."""

    def problems(self, solution_counts: Mapping[str, int]) -> list[PrmcalError]:
        """Return also the error of the first question that the recording lacks, or has too few completions of."""
        calls = (partial(self.generate, [Prefix(text)], n, Sampling(), 0) for text, n in solution_counts.items())
        lacks = next(filter(None, map(errors_of, calls)), [])
        return super().problems(solution_counts) + lacks

    def _recorded_questions(self) -> Mapping[str, RecordedQuestion]:
        return read_recording(self.recording(), "recording", self.skip_bad_rows, self.correct_from)

    def _replayed(self, question: RecordedQuestion) -> Any:
        follow_ups = [[steps, list(map(astuple, completions))] for steps, completions in question.follow_ups.items()]
        return [list(map(astuple, question.solutions)), follow_ups]

    def generate(self, prefixes: Sequence[Prefix], n: int, sampling: Sampling, seed: int) -> list[list[Completion]]:
        """Return the first `n` recorded completions of each prefix; see :meth:`prmcal.LLM.generate`.

        Raises a PluginFailedError if a question is not recorded, or a prefix has fewer than `n` completions.
        """
        questions = self._recorded_questions()
        completions = []
        for prefix in prefixes:
            question = questions.get(prefix.question)
            if question is None:
                raise PluginFailedError(
                    f"{self.file_names} has no recording of the question {prefix.question[:60]!r}. It has "
                    f"{len(questions)} questions. Test and calibrate on these questions."
                )
            recorded_completions = self._completions_of(question, prefix.steps, n)
            if len(recorded_completions) < n:
                place = f"the prefix of {len(prefix.steps)} steps that ends with {join_steps(prefix.steps)[-60:]!r}"
                raise PluginFailedError(
                    f"{self.file_names}, {question.place}: the grid needs {n} completions of "
                    f"{place if prefix.steps else 'the question'}, but {len(recorded_completions)} are recorded. Lower "
                    "the number of samples or follow-ups in the grid, or record more."
                )
            completions.append(recorded_completions[:n])
        return completions

    def _completions_of(self, question: RecordedQuestion, steps: tuple[str, ...], n: int) -> list[Completion]:
        solutions = list(question.solutions)
        if self.one_step:
            solutions = [replace(solution, text=as_one_step(solution.text)) for solution in solutions]
        if not steps:
            return solutions
        recorded = question.follow_ups.get(steps)
        if recorded is not None:
            return list(recorded)
        splitting = StepSplitting.of(self.splitting)
        steps_of_solutions = [split_text(solution.text, splitting, False, self.count_tokens) for solution in solutions]
        for solution, solution_steps in zip(solutions, steps_of_solutions, strict=True):
            if solution_steps == steps:
                return [replace(solution, text="", tokens=0, finish_reason="end")] * n
        return [
            _continuation(solution, solution_steps, len(steps))
            for solution, solution_steps in zip(solutions, steps_of_solutions, strict=True)
            if solution_steps[: len(steps)] == steps
        ]


def _continuation(solution: Completion, steps: tuple[Step, ...], start: int) -> Completion:
    """The text after the first `start` steps, with a proportional share of the tokens."""
    text = "".join(step.sampled for step in steps[start:])
    share = len(text) / max(1, len(solution.text))
    return replace(solution, text=text, tokens=round(solution.tokens * share))


@dataclass(eq=False)
class RecordedPRM(_Recorded, PRM):
    """Replay the recorded scores of a reward model.

    Scores are found by the text of the prefix, apart from white space. If a text occurs several times, the first score
    is used.

    A prefix without a score has the flag `over_long` and is left out of calibration. With outcome rewards, only whole
    solutions have a score, and the bare question has none.
    """

    version = "3"

    logits: str = "logits"
    """The field with the scores. Each solution has one number, or a list with T+1 numbers for its prefixes, or with T
    numbers for its steps if the bare question has none. A prefix with null has no score. Without such a field, it is
    found by its name, such as `scores`."""
    scale: Literal["logit", "probability"] | None = None
    """Meaning of the scores: log-odds of success (the default), or probabilities. It is required if all scores lie in
    [0, 1], as probabilities do."""
    _scores: dict[str, dict[str, float]] = field(init=False, repr=False, default_factory=dict)

    def check_arguments(self) -> None:
        """Raise InvalidArgumentsError if a file does not exist, or if its scores can be read in two ways."""
        super().check_arguments()
        if self.scale is None:
            recording = self._recorded_questions().values()
            scores = [score for question in recording for score in leaves(question.scores) if score is not None]
            if scores and all(_is_score(score) and 0 <= score <= 1 for score in scores):
                raise InvalidArgumentsError(
                    f"All {len(scores):,} scores in {self.file_names} lie in [0, 1]. They can be probabilities or "
                    "log-odds, which give other results. Set 'scale: probability' or 'scale: logit'."
                )

    def _recorded_questions(self) -> dict[str, RecordedQuestion]:
        score_field = None if self.logits == "logits" else self.logits
        return read_recording(self.recording(score_field), "recorded scores", self.skip_bad_rows, correct_from=1)

    def _replayed(self, question: RecordedQuestion) -> Any:
        return [[solution.text for solution in question.solutions], question.scores]

    def problems(self, solution_counts: Mapping[str, int]) -> list[PrmcalError]:
        """Return also the first question that has no scores, and errors in the scores of the first question."""

        def check() -> None:
            questions = self._recorded_questions()
            lacking = (text for text in solution_counts if text not in questions or questions[text].scores == ())
            for question in islice(chain(lacking, solution_counts), 1):
                self._scores_of(question)

        return super().problems(solution_counts) + errors_of(check)

    def score(self, question: str, trajectories: Sequence[Sequence[str]]) -> list[PrefixScores]:
        """Return the recorded score of every prefix; see :meth:`prmcal.PRM.score`.

        Raises a PluginFailedError if the question or a whole trajectory has no recorded score.
        """
        scores_by_text = self._scores_of(question)
        scores = []
        for steps in trajectories:
            prefixes = [steps[:count] for count in range(len(steps) + 1)]
            log_odds = np.array([_score_of(scores_by_text, prefix) for prefix in prefixes], dtype=np.float32)
            if np.isnan(log_odds[-1]):
                raise PluginFailedError(
                    f"{self.file_names} has no score for a trajectory of the question {question[:60]!r} that ends with "
                    f"{join_steps(steps)[-60:]!r}. Use the PRM 'recorded' with the LLM 'recorded' and the same file."
                )
            scores.append(PrefixScores(log_odds, expit(log_odds.astype(np.float64)), np.isnan(log_odds), tokens=0))
        return scores

    def _scores_of(self, question: str) -> dict[str, float]:
        """The logits of a question's prefixes, by their text."""
        if question not in self._scores:
            recorded = self._recorded_questions().get(question)
            if recorded is None or recorded.scores == ():
                raise PluginFailedError(
                    f"{self.file_names} has no scores for the question {question[:60]!r}"
                    + (f" in {recorded.place}." if recorded else ".")
                )
            self._scores[question] = self._logits_by_text(recorded)
        return self._scores[question]

    def _logits_by_text(self, question: RecordedQuestion) -> dict[str, float]:
        log_odds_by_text: dict[str, float] = {}
        splitting = StepSplitting.of(self.splitting)
        for solution, recorded_score in zip(question.solutions, question.scores, strict=True):
            steps = split_text(solution.text, splitting, False, lambda text: len(text.split()))
            scores = recorded_score if isinstance(recorded_score, list) else [recorded_score]
            present_scores = [score for score in scores if score is not None]
            if len(scores) not in (1, len(steps), len(steps) + 1) or not all(map(self._is_known, present_scores)):
                raise DataError(
                    f"{self.file_names}, {question.place}: a solution with {len(steps)} steps must have one score, "
                    f"{len(steps)} scores, or {len(steps) + 1} with the bare question."
                    f"{' Each is in [0, 1].' if self.scale == 'probability' else ''} Got {shown(recorded_score)}."
                )
            for count, score in zip(range(len(steps) + 1 - len(scores), len(steps) + 1), scores, strict=True):
                if score is not None:
                    for key in _keys(steps[:count]):
                        log_odds_by_text.setdefault(key, self._log_odds(float(score)))
        return log_odds_by_text

    def _is_known(self, value: Any) -> bool:
        return _is_score(value) and (self.scale != "probability" or 0 <= value <= 1)

    def _log_odds(self, score: float) -> float:
        return float(log_odds(score)) if self.scale == "probability" else score


def _keys(steps: Sequence[str]) -> tuple[str, str]:
    """Return the text of a prefix without blank lines, and as words. Two solutions can differ in white space only."""
    text = join_steps(steps)
    return "\n".join(line for line in text.split("\n") if line.strip()), " ".join(text.split())


def _score_of(scores: Mapping[str, float], steps: Sequence[str]) -> float:
    text, words = _keys(steps)
    return scores.get(text, scores.get(words, np.nan))


def _is_score(value: Any) -> bool:
    return is_number(value) and abs(value) <= _LARGEST_LOGIT
