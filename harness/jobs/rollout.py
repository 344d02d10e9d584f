"""The work of the models: trajectories, their success rates (Definition 1), and their scores by a PRM.

Trajectories are sampled and graded, followed up, or read from published data. Scores are the logit and the reward of
every prefix.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from prmcal.errors import DataError, PluginFailedError
from prmcal.harness.jobs import parameters
from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.plugin_calls import checked_scores, plugin_guard
from prmcal.harness.jobs.stepping import stored
from prmcal.registry.contracts.data import GIVEN, Completion, Prefix, PrefixScores, Question, ScoringRequest
from prmcal.registry.contracts.dataset import Dataset
from prmcal.registry.datasets.success_rates import SuccessRates
from prmcal.registry.grading import Verdict
from prmcal.registry.grading.extraction import Answer
from prmcal.registry.network import patiently
from prmcal.steps import join_steps, split_steps, text_so_far


def compute_rollout(shard: Shard[parameters.RolloutParameters], context: Context) -> Output:
    """Return the graded trajectories of a slice of questions."""
    data, trajectories = shard.parameters.data, shard.parameters.trajectories
    questions = context.questions(data)
    reader = context.reader(data.dataset, shard.parameters.llm)
    asked = asked_for(len(trajectories), shard.parameters.prefer_answered)
    completions = draw(shard, context, [Prefix(question.text) for question in questions], asked)
    rows = []
    for question, every in zip(questions, completions, strict=True):
        drawn = _kept(reader, every, len(trajectories))
        for number, completion in zip(trajectories, drawn, strict=True):
            found = reader.find_answer(completion.text)
            verdict, answer = _graded(shard, context, question, completion)
            if completion.correct is not None and found:
                answer = found.text
            rows.append(
                _row(question, number, completion, len(split_steps(completion.text)), answer, found, verdict)
            )
    counts = [each.tokens for every in completions for each in every]
    return Output({"trajectories": _trajectories(rows)}, samples=len(counts), generated_tokens=sum(counts))


def asked_for(n: int, prefer_answered: float | None) -> int:
    """Return how many completions are drawn to keep `n`."""
    return math.ceil(n * (prefer_answered or 1))


def _kept(reader: Dataset, drawn: Sequence[Completion], n: int) -> Sequence[Completion]:
    """The completions that are kept, `n` of them. If more were drawn, those with an answer are first."""
    if len(drawn) == n:
        return drawn
    return sorted(drawn, key=lambda each: reader.find_answer(each.text) is None)[:n]


def _row(
    question: Question,
    number: int,
    drawn: Completion,
    steps: int,
    answer: str | None,
    found: Answer | None,
    verdict: Verdict,
) -> dict[str, Any]:
    return {
        "question_id": question.id,
        "trajectory": number,
        "text": drawn.text,
        "steps": steps,
        "tokens": drawn.tokens,
        "prompt_tokens": drawn.prompt_tokens,
        "finish_reason": drawn.finish_reason,
        "answer": answer,
        "found_by": GIVEN
        if drawn.correct is not None
        else found.way
        if found and found.text == answer
        else None,
        "verdict": verdict,
        "correct": verdict == "correct",
    }


def _graded(
    shard: Shard[parameters.GeneratingParameters],
    context: Context,
    question: Question,
    drawn: Completion,
    head: str = "",
) -> tuple[Verdict, str | None]:
    """Return the verdict on a completion and the final answer. If the LLM knows the verdict, nothing is read."""
    if drawn.correct is not None:
        return "correct" if drawn.correct else "incorrect", None
    return context.grade(shard.parameters.data.dataset, shard.parameters.llm, question, head + drawn.text)


def _trajectories(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    numbers = ("trajectory", "steps", "tokens", "prompt_tokens")
    return pd.DataFrame(rows).astype({**dict.fromkeys(numbers, "int32"), "answer": "str", "found_by": "str"})


def draw(
    shard: Shard[parameters.GeneratingParameters], context: Context, prefixes: Sequence[Prefix], n: int
) -> list[list[Completion]]:
    """Sample `n` completions of each prefix with the LLM, the sampling and the seed of a shard, and check them.

    Their steps are those of the LLM's own splitting.
    """
    if not prefixes:
        return []
    given = shard.parameters
    with plugin_guard("llm", given.llm.name, "generate"):
        llm = context.llm(given.llm)
        completions = patiently(llm, lambda: llm.generate(prefixes, n, given.sampling, shard.seed))
        return stored(llm, [(prefix, n) for prefix in prefixes], completions)


_Group = tuple[str, tuple[str, ...], int]
"""Prefixes that share their follow-ups: the question, the steps, and the trajectory if it is the bare question."""


def compute_success(shard: Shard[parameters.SuccessParameters], context: Context) -> Output:
    """Return the counts for the prefixes of the measured trajectories, all of them or as many as may be followed up.

    The bare question gets follow-ups of its own for every trajectory, since IAS depends on its success rate. All other
    equal prefixes are followed up once and share their counts. A terminal prefix, which contains the final
    answer, needs no follow-up: either all of its follow-ups would be correct or none. If the LLM knows what is right,
    that is the whole trajectory, and with one follow-up its outcome is that of all of its prefixes.
    """
    given, data, follow_ups = shard.parameters, shard.parameters.data, len(shard.parameters.follow_ups)
    llm, reader = shard.parameters.llm, context.reader(data.dataset, shard.parameters.llm)
    questions = {question.id: question for question in context.questions(data)}
    trajectories = context.table(shard, "rollout", "trajectories")
    trajectories = trajectories[trajectories["trajectory"] < shard.parameters.trajectories.stop]

    prefixes: list[tuple[str, int, int, _Group]] = []
    counts: dict[_Group, tuple[int, bool]] = {}
    for row in trajectories.itertuples():
        steps: tuple[str, ...] = split_steps(row.text)
        for step in chosen_prefixes(len(steps), given.most_prefixes, given.first_prefixes):
            known, whole = row.found_by == GIVEN, step == len(steps)
            own = not step or (known and (whole or given.follow_ups.stop == 1))
            group = (row.question_id, steps[:step], row.trajectory if own else 0)
            prefixes.append((row.question_id, row.trajectory, step, group))
            text = join_steps(steps[:step])
            if known:
                if whole or given.follow_ups.stop == 1:
                    counts[group] = (follow_ups if row.correct else 0, whole)
            elif reader.find_answer(text, whole) is not None:
                verdict, _ = context.grade(data.dataset, llm, questions[row.question_id], text)
                counts[group] = (follow_ups if verdict == "correct" else 0, True)

    followed = sorted({group for *_, group in prefixes} - counts.keys())
    asked = asked_for(follow_ups, given.prefer_answered)
    drawn = draw(shard, context, [Prefix(questions[q].text, steps) for q, steps, _ in followed], asked)
    tokens = 0
    for group, completions in zip(followed, drawn, strict=True):
        question_id, steps, _ = group
        head = text_so_far(steps)
        question = questions[question_id]
        kept = _kept(reader, completions, follow_ups)
        verdicts = [_graded(shard, context, question, each, head)[0] for each in kept]
        counts[group] = (verdicts.count("correct"), False)
        tokens += sum(each.tokens for each in completions)

    rows = [
        (question, trajectory, step, counts[group][0], follow_ups, counts[group][1])
        for question, trajectory, step, group in prefixes
    ]
    table = {"successes": counted(rows)}
    return Output(table, samples=len(followed) * asked, generated_tokens=tokens)


def chosen_prefixes(steps: int, most: int | None, first: int | None = None) -> list[int]:
    """Return which prefixes of a trajectory of T steps are followed up, by their numbers of steps t.

    There are at most `most`, at least 2: the bare question, the whole trajectory, and prefixes at equal distances
    between them, rounded to whole steps. With None, all T+1 are followed up. If `first` is set, these are t = 0 to
    `first` - 1 without the whole trajectory, as in the authors' code.
    """
    if first is not None:
        return list(range(max(1, min(first, steps))))
    if most is None or most > steps:
        return list(range(steps + 1))
    gaps = most - 1
    return [(2 * place * steps + gaps) // (2 * gaps) for place in range(most)]


def counted(rows: Sequence[tuple[str, int, int, int, int, bool]]) -> pd.DataFrame:
    """Return the table of success counts.

    Each row has the question, the trajectory, the step, the successes, the follow-ups, and whether the prefix contains
    the final answer (it is terminal).
    """
    columns = ["question_id", "trajectory", "step", "successes", "follow_ups", "terminal"]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(columns[1:5], "int32"))


def compute_imported(shard: Shard[parameters.ImportedParameters], context: Context) -> Output:
    """Return the tables of a rollout and of its success rates. Prefixes without a rate are not in the second one.

    The number of generated tokens is not known; it is stored as 0.
    """
    given = shard.parameters
    dataset, llm = context.dataset(given.data.dataset), given.llm.name
    if not isinstance(dataset, SuccessRates):
        raise PluginFailedError(f"The data set '{given.data.dataset.name}' has no success rates.")
    published = dataset.trajectories(llm, given.follow_ups.stop, given.data.split)
    drawn, counts = [], []
    for question in context.questions(given.data):
        if question.text not in published:
            raise DataError(
                f"The published success rates of '{llm}' do not have the question {question.text[:60]!r}, which those "
                "of another LLM have. Give each LLM of the grid the same questions."
            )
        kept = published[question.text][: given.trajectories.stop]
        for number, each in enumerate(kept):
            text = join_steps(each.steps)
            found = dataset.find_answer(text)
            answer = found and found.text
            k, n = each.counts[len(each.steps)]
            verdict: Verdict = "unparsed" if answer is None else "correct" if k == n else "incorrect"
            drawn.append(
                _row(question, number, Completion(text, 0, "end"), len(each.steps), answer, found, verdict)
            )
            counts += [
                (question.id, number, step, k, n, answer is not None and step == len(each.steps))
                for step, (k, n) in each.counts.items()
            ]
    return Output({"trajectories": _trajectories(drawn), "successes": counted(counts)})


_Place = tuple[str, int, PrefixScores]
"""The id of a question, the index of one of its trajectories, and the scores of this trajectory."""


def scoring_requests(
    context: Context, data: parameters.QuestionSlice, trajectories: pd.DataFrame
) -> dict[str, ScoringRequest]:
    """Return the requests to score some trajectories: one for each question, by its id, in the order of the table."""
    questions = {question.id: question.text for question in context.questions(data)}
    return {
        key: ScoringRequest(questions[key], tuple(split_steps(text) for text in group["text"]))
        for key, group in trajectories.groupby("question_id", sort=False)
    }


def compute_score(shard: Shard[parameters.ScoreParameters], context: Context) -> Output:
    """Return the scores of a rollout shard. A prefix that is too long for the PRM has the score NaN and a flag."""
    prm = shard.parameters.prm
    trajectories = context.table(shard, "rollout", "trajectories")
    requests = scoring_requests(context, shard.parameters.data, trajectories)
    groups = list(trajectories.groupby("question_id", sort=False))
    with plugin_guard("prm", prm.name, "score"):
        scored = checked_scores(context.prm(prm), list(requests.values()))
    places = [
        (key, trajectory, each)
        for (key, group), scores in zip(groups, scored, strict=True)
        for trajectory, each in zip(group["trajectory"], scores, strict=True)
    ]
    # Tokens that the trajectories of a question share are counted once.
    read = [(key, trajectory, each.tokens) for key, trajectory, each in places]
    tokens = pd.DataFrame(read, columns=["question_id", "trajectory", "tokens"])
    tokens = tokens.astype({"trajectory": "int32", "tokens": "int32"})
    total = sum(count for _, _, count in read)
    return Output({"rewards": _rewards(places), "scored_tokens": tokens}, scored_tokens=total)


def _rewards(places: Sequence[_Place]) -> pd.DataFrame:
    """Return one row for each prefix.

    It is built from whole columns: one table for each trajectory would take as long as a small PRM.
    """
    prefixes = [len(each.logit) for _, _, each in places]
    return pd.DataFrame(
        {
            "question_id": np.repeat([key for key, _, _ in places], prefixes),
            "trajectory": np.repeat(np.array([number for _, number, _ in places], dtype=np.int32), prefixes),
            "step": np.concatenate([np.arange(count, dtype=np.int32) for count in prefixes]),
            "logit": np.concatenate([np.asarray(each.logit, dtype=np.float32) for _, _, each in places]),
            "reward": np.concatenate([np.asarray(each.reward, dtype=np.float64) for _, _, each in places]),
            "over_long": np.concatenate([np.asarray(each.over_long, dtype=bool) for _, _, each in places]),
        }
    )
