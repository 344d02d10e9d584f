"""Grading: the answers in texts, compared with the references, and published success rates.

Only a judge runs a model. A changed grader samples nothing.
"""

from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
import pandas as pd

from prmcal.errors import DataError, PluginFailedError
from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import (
    GradedParameters,
    GradedSearchParameters,
    ImportedParameters,
    PluginReference,
    SuccessParameters,
    VerdictParameters,
)
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.harness.jobs.rollout import PrefixOfTrajectory, completion_of, measured_prefixes
from prmcal.registry.contracts.data import GIVEN, Completion
from prmcal.registry.contracts.grader import Graded, GradingRequest
from prmcal.registry.contracts.results import require, require_length
from prmcal.registry.datasets.success_rates import SuccessRates
from prmcal.registry.grading import UNDECIDED, Answer, Verdict, find_answer
from prmcal.registry.messages import shown
from prmcal.steps import join_steps, text_so_far


def compute_graded(shard: Shard[GradedParameters], context: Context) -> Output:
    """Return the trajectories of a rollout with their answers and verdicts."""
    grading = _Grading(shard, context)
    texts = context.table(shard, "rollout", "texts")
    rows = []
    for row in texts.to_dict("records"):
        completion = completion_of(row)
        answer = find_answer(completion.text, shard.parameters.answers)
        verdict, text = grading.verdict(row["question_id"], completion)
        if completion.correct is not None and answer:
            text = answer.text
        rows.append(graded_row(row["question_id"], row["trajectory"], row["steps"], completion, text, answer, verdict))
    return Output({"trajectories": graded_table(rows)})


def graded_row(
    question_id: str,
    trajectory: int,
    steps: int,
    completion: Completion,
    text: str | None,
    answer: Answer | None,
    verdict: Verdict,
) -> dict[str, Any]:
    """Return a row of :func:`graded_table`.

    `text` is the answer for comparisons. `answer` is the answer as it was read, and how it was found.
    """
    way = answer.way if answer and answer.text == text else None
    return {
        "question_id": question_id,
        "trajectory": trajectory,
        "text": completion.text,
        "steps": steps,
        "tokens": completion.tokens,
        "prompt_tokens": completion.prompt_tokens,
        "finish_reason": completion.finish_reason,
        "answer": text,
        "found_by": way if completion.correct is None else GIVEN,
        "verdict": verdict,
        "correct": verdict == "correct",
    }


def graded_table(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return graded trajectories as a table."""
    numbers = ("trajectory", "steps", "tokens", "prompt_tokens")
    return pd.DataFrame(rows).astype({**dict.fromkeys(numbers, "int32"), "answer": "str", "found_by": "str"})


def compute_success(shard: Shard[SuccessParameters], context: Context) -> Output:
    """Return the success counts of the prefixes of the measured trajectories, from a block of their follow-ups.

    A terminal prefix has no follow-ups: it contains the final answer, or the LLM ended it without one. All follow-ups
    of such a prefix would be correct, or all would be wrong.
    """
    parameters, count = shard.parameters, len(shard.parameters.follow_ups)
    grading = _Grading(shard, context)
    follow_ups: dict[tuple[str, str], list[Completion]] = {}
    for row in context.table(shard, "follow_ups", "follow_ups").to_dict("records"):
        follow_ups.setdefault((row["question_id"], row["prefix"]), []).append(completion_of(row))
    counts: dict[tuple[str, str], tuple[int, bool]] = {}
    rows = []
    trajectories = context.table(shard, "graded", "trajectories")
    trajectories["correct"] = trajectories["correct"].astype("boolean").where(trajectories["found_by"] == GIVEN)
    for prefix in measured_prefixes(trajectories, parameters):
        key = prefix.question_id, prefix.key
        if key not in counts:
            outcome, terminal = grading.outcome(prefix)
            successes = count * bool(outcome)
            if outcome is None:
                head = text_so_far(prefix.steps)
                verdicts = [grading.verdict(prefix.question_id, text, head)[0] for text in follow_ups[key]]
                successes = verdicts.count("correct")
            counts[key] = successes, terminal
        successes, terminal = counts[key]
        rows.append((prefix.question_id, prefix.trajectory, prefix.step, successes, count, terminal))
    return Output({"successes": successes_table(rows)})


def successes_table(rows: Sequence[tuple[str, int, int, int, int, bool]]) -> pd.DataFrame:
    """Return the table of success counts.

    Each row has the question, the trajectory, the step, the successes, the follow-ups, and whether the prefix is
    terminal.
    """
    columns = ["question_id", "trajectory", "step", "successes", "follow_ups", "terminal"]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(columns[1:5], "int32"))


def compute_graded_search(shard: Shard[GradedSearchParameters], context: Context) -> Output:
    """Return the searches with their verdicts, and whether any finished prefix of a search has the right answer."""
    grading = _Grading(shard, context)
    finished = context.table(shard, "search", "finished")
    is_right = [grading.verdict_on(row.question_id, row.text)[0] == "correct" for row in finished.itertuples()]
    solved = set(finished["question_id"][pd.Series(is_right, dtype=bool)])
    searches = context.table(shard, "search", "searched")
    verdicts = [grading.verdict_on(row.question_id, row.text) for row in searches.itertuples()]
    searches["answer"] = pd.Series([answer for _, answer in verdicts], dtype="str")
    searches["verdict"] = pd.Series([verdict for verdict, _ in verdicts], dtype="str")
    searches["correct"] = searches["verdict"] == "correct"
    searches["any_correct"] = searches["question_id"].isin(solved)
    return Output({"searches": searches})


def compute_imported(shard: Shard[ImportedParameters], context: Context) -> Output:
    """Return the tables of a rollout and of its success rates. Prefixes without a rate are not in the second table.

    The number of generated tokens is not known; it is stored as 0.
    """
    parameters = shard.parameters
    dataset, llm = context.dataset(parameters.data.dataset), parameters.llm.name
    if not isinstance(dataset, SuccessRates):
        raise PluginFailedError(f"The data set '{parameters.data.dataset.name}' has no success rates.")
    published = dataset.trajectories(llm, parameters.follow_ups.stop, parameters.data.split)
    rows, counts = [], []
    for question in context.questions(parameters.data):
        if question.text not in published:
            raise DataError(
                f"The published success rates of '{llm}' lack the question {question.text[:60]!r}, but those of "
                "another LLM have it. Give each LLM of the grid the same questions."
            )
        for number, trajectory in enumerate(published[question.text][: parameters.trajectories.stop]):
            steps, completion = len(trajectory.steps), Completion(join_steps(trajectory.steps), 0, "end")
            answer = find_answer(completion.text, parameters.answers)
            answer_text = answer and answer.text
            k, n = trajectory.counts[steps]
            verdict: Verdict = "unparsed" if answer_text is None else "correct" if k == n else "incorrect"
            rows.append(graded_row(question.id, number, steps, completion, answer_text, answer, verdict))
            counts += [
                (question.id, number, step, k, n, answer_text is not None and step == steps)
                for step, (k, n) in trajectory.counts.items()
            ]
    graded = graded_table(rows)
    columns = ["question_id", "trajectory", "text", "steps", "tokens", "prompt_tokens", "finish_reason"]
    texts = graded[columns].assign(correct=pd.array([None] * len(graded), "boolean"), request="")
    return Output({"texts": texts, "trajectories": graded, "successes": successes_table(counts)})


class _Grading:
    """The verdicts of a shard on texts, by the ids of their questions."""

    def __init__(self, shard: Shard[Any], context: Context) -> None:
        self.shard = shard
        self.questions = {question.id: question for question in context.questions(shard.parameters.data)}
        self._context = context

    def verdict(self, question_id: str, completion: Completion, head: str = "") -> tuple[Verdict, str | None]:
        """Return the verdict on a completion of `head`, and the final answer.

        If the LLM knows the verdict, nothing is read.
        """
        if completion.correct is not None:
            return "correct" if completion.correct else "incorrect", None
        return self.verdict_on(question_id, head + completion.text)

    def verdict_on(self, question_id: str, text: str) -> tuple[Verdict, str | None]:
        """Return the verdict on a whole text, and the final answer."""
        parameters, question = self.shard.parameters, self.questions[question_id]
        if parameters.grader is None:
            return self._context.grade(parameters.data.dataset, parameters.answers, question, text)
        answer = find_answer(text, parameters.answers)
        request = GradingRequest(question, answer and answer.text, text)
        (grade,) = graded_by(self._context, parameters.grader, [request])
        return grade.verdict, request.answer

    def outcome(self, prefix: PrefixOfTrajectory) -> tuple[bool | None, bool]:
        """Return whether all follow-ups of a prefix are correct (None: grade them), and whether it is terminal."""
        parameters = self.shard.parameters
        outcome = prefix.outcome(parameters.follow_ups.stop)
        if outcome is not None:
            return outcome, prefix.whole
        if not prefix.finished(parameters.answers):
            return None, False
        text = join_steps(prefix.steps)
        if find_answer(text, parameters.answers, prefix.whole) is None:
            return False, True
        return self.verdict_on(prefix.question_id, text)[0] == "correct", True


def graded_by(context: Context, reference: PluginReference, requests: Sequence[GradingRequest]) -> list[Graded]:
    """Return the verdicts of a grader on some solutions. Raises a FaultyPluginError if it breaks its contract."""
    with plugin_guard("grader", reference.name, "grade"):
        grades = context.grader(reference).grade(requests)
        require_length(grades, len(requests), "graded solutions")
        for grade in grades:
            is_graded = isinstance(grade, Graded) and grade.verdict in get_args(Verdict)
            verdicts = ", ".join(get_args(Verdict))
            require(is_graded, f"it must return Graded objects with a verdict ({verdicts}). Got {shown(grade)}.")
    return grades


def compute_verdicts(shard: Shard[VerdictParameters], context: Context) -> Output:
    """Return the verdicts of another grader on graded trajectories.

    A grader of undecided answers only keeps the first grader's other verdicts.
    """
    reference = shard.parameters.grader
    assert reference is not None
    questions = {question.id: question for question in context.questions(shard.parameters.data)}
    trajectories = context.table(shard, "graded", "trajectories")
    is_regraded = trajectories["verdict"].isin(UNDECIDED) | (not context.grader(reference).undecided_only)
    requests = [
        GradingRequest(questions[row.question_id], None if pd.isna(row.answer) else row.answer, row.text)
        for row in trajectories[is_regraded].itertuples()
    ]
    grades = graded_by(context, reference, requests)
    columns = ["question_id", "trajectory", "answer", "verdict"]
    table = trajectories[columns].assign(probability=np.nan, asked=is_regraded)
    table.loc[is_regraded, "verdict"] = [grade.verdict for grade in grades]
    table.loc[is_regraded, "probability"] = [grade.probability for grade in grades]
    table["agrees"] = (table["verdict"] == "correct") == trajectories["correct"]
    return Output({"verdicts": table}, scored_tokens=sum(grade.tokens for grade in grades))
