"""The LLM and the PRM `recorded`: solutions and scores that were computed elsewhere, read from a JSON Lines file."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.special import expit

from prmcal.errors import DataError, InvalidArgumentsError, PluginFailedError, PrmcalError
from prmcal.log_odds import log_odds
from prmcal.registry.contracts.data import Completion, Prefix, PrefixScores, Sampling
from prmcal.registry.contracts.models import LLM, PRM
from prmcal.registry.contracts.plugin import errors_of
from prmcal.registry.grading import Answers
from prmcal.registry.messages import file_hash, is_file, shown
from prmcal.registry.reading.records import good_records, read_records
from prmcal.registry.splitting import BLANK_LINE, Splitting, StepSplitting, split_text
from prmcal.steps import Step, join_steps, split_steps

_MOST_TOKENS = 2**31 - 1
_FINISH_REASONS = ("end", "stop", "length")


@dataclass(frozen=True)
class RecordedQuestion:
    """The recording of one question."""

    place: str
    """The place in the file, for error messages."""
    solutions: tuple[Completion, ...]
    """Whole trajectories, in the order in which they were sampled."""
    follow_ups: Mapping[tuple[str, ...], tuple[Completion, ...]]
    """Completions of prefixes, by the prefix's steps."""
    logits: tuple[Any, ...]
    """The recorded logits, one entry for each solution. Empty if there are none."""


def check_recording(path: str) -> None:
    """Raise InvalidArgumentsError if there is no such file."""
    if not is_file(path):
        raise InvalidArgumentsError(
            f"There is no recording {path}. Set 'path' to a file of JSON lines with 'question' and 'solutions'."
        )


def recording_identity(identity: dict[str, Any], path: str) -> dict[str, Any]:
    """Return a plugin's identity, with a hash of the recording in place of its path."""
    arguments = {name: value for name, value in identity["arguments"].items() if name != "path"}
    return {**identity, "arguments": arguments, "recording": file_hash(path)}


@lru_cache(maxsize=4)
def read_recording(path: str, solutions: str, logits: str, skip: bool = False) -> dict[str, RecordedQuestion]:
    """Read the questions of a recording, by their text.

    `solutions` and `logits` are the fields with the solutions and their logits. With `skip`, bad records are left out
    with a warning. Raises a DataError if the file cannot be read, records are invalid, or a question occurs twice.
    """
    questions: dict[str, RecordedQuestion] = {}

    def convert(place: str, record: Any) -> None:
        text, question = _question(place, record, solutions, logits)
        if text in questions:
            raise ValueError(f"it has the same question as {questions[text].place}")
        questions[text] = question

    good_records(read_records(Path(path)), convert, path, skip)
    return questions


def _question(place: str, record: Any, solutions: str, logits: str) -> tuple[str, RecordedQuestion]:
    if not isinstance(record, dict):
        raise ValueError(f"it must be an object with 'question' and '{solutions}'")
    text = record.get("question", record.get("problem"))
    if not isinstance(text, str) or not text.strip():
        raise ValueError("it must have a 'question' (or a 'problem') that is a text")
    whole = _completions(record.get(solutions), solutions)
    scores = record.get(logits) or []
    if not isinstance(scores, list) or len(scores) not in (0, len(whole)):
        raise ValueError(f"'{logits}' must be a list with an entry for each of its {len(whole)} solutions")
    follow_ups = {
        tuple(each["prefix"]): _completions(each.get("completions"), "completions")
        for each in _follow_ups(record.get("follow_ups") or [])
    }
    return text, RecordedQuestion(place, whole, follow_ups, tuple(scores))


def _completions(values: Any, field: str) -> tuple[Completion, ...]:
    if not isinstance(values, list) or not values:
        raise ValueError(f"'{field}' must be a list with at least one solution")
    return tuple(_completion(value, field) for value in values)


def _completion(value: Any, field: str) -> Completion:
    given = {"text": value} if isinstance(value, str) else value
    if not isinstance(given, dict) or not isinstance(given.get("text"), str):
        raise ValueError(f"each of '{field}' must be a text, or an object with a 'text'")
    text = given["text"]
    tokens, reason = given.get("tokens", len(text.split())), given.get("finish_reason", "end")
    if not isinstance(tokens, int) or not 0 <= tokens <= _MOST_TOKENS or reason not in _FINISH_REASONS:
        raise ValueError(
            f"in '{field}', 'tokens' must be an int in [0, {_MOST_TOKENS}] and 'finish_reason' end, stop or length. "
            f"Got {shown(tokens)} and {shown(reason)}"
        )
    return Completion(text, tokens, "length" if reason == "length" else "end")


def _follow_ups(values: Any) -> list[dict[str, Any]]:
    well_formed = isinstance(values, list) and all(
        isinstance(each, dict)
        and isinstance(each.get("prefix"), list)
        and all(isinstance(step, str) for step in each["prefix"])
        for each in values
    )
    if not well_formed:
        raise ValueError(
            "'follow_ups' must be a list of objects with 'prefix', a list of steps, and 'completions'"
        )
    found: list[dict[str, Any]] = values
    return found


@dataclass(eq=False)
class RecordedLLM(LLM):
    """Replay the recorded completions of a policy, in their order.

    The completions of the bare question are the recorded solutions. The completions of another prefix are those
    recorded for it. If there are none, they are the rest of every solution that begins with the prefix. The completion
    of a whole solution is empty. Sampling and seed are ignored, since the recording has fixed them.

    Notes
    -----
    A call does not know which trajectories of a question to draw. So a shard of the grid must contain all of them: set
    ``shards.trajectories`` to at least ``scaling.samples``, ``calibration.trajectories`` and the numbers of follow-ups.
    """

    version = "3"
    repeats = True

    path: str
    """The recording; see :mod:`prmcal.registry.recorded` for the format."""
    solutions: str = "solutions"
    """The field with a question's solutions."""
    one_step: bool = False
    """Replay each solution as a single step, without its blank lines. Use it for outcome rewards, which exist only for
    whole solutions. No follow-ups of shorter prefixes are then needed."""
    splitting: Splitting = BLANK_LINE
    """Where the steps of the texts end, as in the LLM `transformers`. The limits of a step count words."""
    answers: Answers | None = None
    """Where the answers stand, as in the data set `jsonl`. By default the data set says it."""
    skip_bad_rows: bool = False
    """Leave out rows that cannot be read, and warn of them."""

    def check_arguments(self) -> None:
        """Raise InvalidArgumentsError if the file does not exist."""
        check_recording(self.path)

    def identity(self) -> dict[str, Any]:
        """Return the identity, with a hash of the recording in place of its path."""
        return recording_identity(super().identity(), self.path)

    def problems(self, asked: Mapping[str, int]) -> list[PrmcalError]:
        """Return also what the recording lacks of the first question that it lacks something of."""
        calls = (partial(self.generate, [Prefix(text)], n, Sampling(), 0) for text, n in asked.items())
        lacks = next(filter(None, map(errors_of, calls)), [])
        return super().problems(asked) + lacks

    def generate(
        self, prefixes: Sequence[Prefix], n: int, sampling: Sampling, seed: int
    ) -> list[list[Completion]]:
        """Return the first `n` recorded completions of each prefix; see :meth:`prmcal.LLM.generate`.

        Raises a PluginFailedError if a question is not recorded, or a prefix has fewer than `n` completions.
        """
        questions = read_recording(self.path, self.solutions, "", self.skip_bad_rows)
        completions = []
        for prefix in prefixes:
            question = questions.get(prefix.question)
            if question is None:
                raise PluginFailedError(
                    f"{self.path} has no recording of the question {prefix.question[:60]!r}. It has {len(questions)} "
                    "questions. Test and calibrate on these."
                )
            found = self._completions_of(question, prefix.steps, n)
            if len(found) < n:
                place = f"the prefix of {len(prefix.steps)} steps that ends with {join_steps(prefix.steps)[-60:]!r}"
                raise PluginFailedError(
                    f"{self.path}, {question.place}: the grid needs {n} completions of "
                    f"{place if prefix.steps else 'the question'}, but {len(found)} are recorded. Lower the number of "
                    "samples or follow-ups in the grid, or record more."
                )
            completions.append(found[:n])
        return completions

    def _completions_of(self, question: RecordedQuestion, steps: tuple[str, ...], n: int) -> list[Completion]:
        solutions = list(question.solutions)
        if self.one_step:  # Without blank lines, a text is a single step.
            solutions = [replace(each, text="\n".join(split_steps(each.text))) for each in solutions]
        if not steps:
            return solutions
        recorded = question.follow_ups.get(steps)
        if recorded is not None:
            return list(recorded)
        splitting = StepSplitting.of(self.splitting)
        split = [split_text(each.text, splitting, False, self.count_tokens) for each in solutions]
        if steps in split:
            return [Completion("", 0, "end")] * n
        return [
            _rest(solution, whole, len(steps))
            for solution, whole in zip(solutions, split, strict=True)
            if whole[: len(steps)] == steps
        ]


def _rest(solution: Completion, steps: tuple[Step, ...], start: int) -> Completion:
    """The text after the first `start` steps, with a proportional share of the tokens."""
    text = "".join(step.sampled for step in steps[start:])
    share = len(text) / max(1, len(solution.text))
    return Completion(text, round(solution.tokens * share), solution.finish_reason)


_LARGEST_LOGIT = float(np.finfo(np.float32).max)


@dataclass(eq=False)
class RecordedPRM(PRM):
    """Replay the recorded scores of a reward model.

    Scores are found by the text of the prefix, whatever white space is in it. If a text occurs several times, the first
    score is used.

    A prefix without a score has the flag `over_long` and is left out of calibration. With outcome rewards, only whole
    solutions have a score, and the bare question has none.
    """

    version = "2"

    path: str
    """The recording; see :mod:`prmcal.registry.recorded` for the format."""
    solutions: str = "solutions"
    """The field with a question's solutions."""
    logits: str = "logits"
    """The field with the scores. Each solution has one number, or a list with one number for each of its T+1 prefixes,
    or for each of its T steps, if the bare question has none. A prefix with null has no score."""
    splitting: Splitting = BLANK_LINE
    skip_bad_rows: bool = False
    """As in the LLM `recorded`."""
    scale: Literal["logit", "probability"] | None = None
    """Meaning of the scores: log-odds of success (the default), or probabilities. It must be given if all scores lie in
    [0, 1], as probabilities do."""
    _scores: dict[str, dict[str, float]] = field(init=False, repr=False, default_factory=dict)

    def check_arguments(self) -> None:
        """Raise InvalidArgumentsError if the file does not exist, or if its scores can be read in two ways."""
        check_recording(self.path)
        if self.scale is None:
            recording = read_recording(self.path, self.solutions, self.logits, self.skip_bad_rows).values()
            scores = [each for question in recording for each in _leaves(question.logits) if each is not None]
            if scores and all(_is_number(each) and 0 <= each <= 1 for each in scores):
                raise InvalidArgumentsError(
                    f"All {len(scores):,} scores in '{self.logits}' of {self.path} lie in [0, 1]. They can be "
                    "probabilities or log-odds, which give other results. Set 'scale: probability' or 'scale: logit'."
                )

    def identity(self) -> dict[str, Any]:
        """Return the identity, with a hash of the recording in place of its path."""
        return recording_identity(super().identity(), self.path)

    def problems(self, asked: Mapping[str, int]) -> list[PrmcalError]:
        """Return also the first question that has no scores, and errors in the scores of the first question."""

        def check() -> None:
            known = read_recording(self.path, self.solutions, self.logits, self.skip_bad_rows)
            lacking = (text for text in asked if text not in known or not known[text].logits)
            for first in islice(chain(lacking, asked), 1):
                self._scores_of(first)

        return super().problems(asked) + errors_of(check)

    def score(self, question: str, trajectories: Sequence[Sequence[str]]) -> list[PrefixScores]:
        """Return the recorded score of every prefix; see :meth:`prmcal.PRM.score`.

        Raises a PluginFailedError if the question or a whole trajectory has no recorded score.
        """
        known = self._scores_of(question)
        found = []
        for steps in trajectories:
            log_odds = np.array(
                [_known(known, steps[:count]) for count in range(len(steps) + 1)], dtype=np.float32
            )
            if np.isnan(log_odds[-1]):
                raise PluginFailedError(
                    f"{self.path} has no score for a trajectory of the question {question[:60]!r} that ends with "
                    f"{join_steps(steps)[-60:]!r}. Use the PRM 'recorded' with the LLM 'recorded' and the same file."
                )
            found.append(
                PrefixScores(log_odds, expit(log_odds.astype(np.float64)), np.isnan(log_odds), tokens=0)
            )
        return found

    def _scores_of(self, question: str) -> dict[str, float]:
        """The logits of a question's prefixes, by their text."""
        if question not in self._scores:
            recorded = read_recording(self.path, self.solutions, self.logits, self.skip_bad_rows).get(
                question
            )
            if recorded is None or not recorded.logits:
                raise PluginFailedError(
                    f"{self.path} has no '{self.logits}' for the question {question[:60]!r}"
                    + (f" in {recorded.place}." if recorded else ".")
                )
            self._scores[question] = self._logits_by_text(recorded)
        return self._scores[question]

    def _logits_by_text(self, question: RecordedQuestion) -> dict[str, float]:
        found: dict[str, float] = {}
        splitting = StepSplitting.of(self.splitting)
        for solution, given in zip(question.solutions, question.logits, strict=True):
            steps = split_text(solution.text, splitting, False, lambda text: len(text.split()))
            scores = given if isinstance(given, list) else [given]
            known = [each for each in scores if each is not None]
            if len(scores) not in (1, len(steps), len(steps) + 1) or not all(map(self._is_score, known)):
                raise DataError(
                    f"{self.path}, {question.place}: '{self.logits}' must have a number for each solution, or a list "
                    f"of {len(steps)} numbers, or {len(steps) + 1} with the bare question, for a solution with "
                    f"{len(steps)} steps.{' Each is in [0, 1].' if self.scale == 'probability' else ''} "
                    f"Got {shown(given)}."
                )
            for count, score in zip(range(len(steps) + 1 - len(scores), len(steps) + 1), scores, strict=True):
                if score is not None:
                    for key in _keys(steps[:count]):
                        found.setdefault(key, self._log_odds(float(score)))
        return found

    def _is_score(self, value: Any) -> bool:
        return _is_number(value) and (self.scale != "probability" or 0 <= value <= 1)

    def _log_odds(self, score: float) -> float:
        return float(log_odds(score)) if self.scale == "probability" else score


def _leaves(values: Iterable[Any]) -> Iterator[Any]:
    for each in values:
        if isinstance(each, list):
            yield from _leaves(each)
        else:
            yield each


def _keys(steps: Sequence[str]) -> tuple[str, str]:
    """Return the text of a prefix without blank lines, and as words. Two solutions can differ in white space only."""
    text = join_steps(steps)
    return "\n".join(line for line in text.split("\n") if line.strip()), " ".join(text.split())


def _known(scores: Mapping[str, float], steps: Sequence[str]) -> float:
    text, words = _keys(steps)
    return scores.get(text, scores.get(words, np.nan))


def _is_number(value: Any) -> bool:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return known and abs(value) <= _LARGEST_LOGIT
