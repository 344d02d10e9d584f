"""The health of a run: problems of its data that a reader must know before any number."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Unpack

import pandas as pd
import sqlalchemy as sa
from sqlalchemy.orm import aliased

from prmcal.db.queries.cells import Names, Role, of_job, with_role
from prmcal.db.queries.runs import graded_jobs, is_graded_for
from prmcal.db.reader import Source, connection_of, frame
from prmcal.db.statistics.intervals import bounded_interval
from prmcal.db.tables import (
    Cell,
    HealthCheck,
    JobInput,
    JobRow,
    PluginRow,
    QuestionResult,
    QuestionRow,
    Reward,
    TrajectoryRow,
    Verdict,
)

Severity = Literal["misleading", "notable", "fine"]
"""The weight of a check. After a misleading finding, no number of the run is shown first."""

MOST_UNREAD = 0.1
"""If more than this share of the answers was not read, numbers mislead."""

_NOTABLE_SHARE = 0.05
READ, GRADER = "read: ", "grader: "
"""The beginnings of two kinds of checks' names: counts of answers by their way (``read: boxed``), and graders."""

_REASONS = ("timed out", "unknown words", "ambiguous comma")
"""Verdicts that say why the grader did not decide."""

_CHECKS = (
    *("unread", *_REASONS, "undecided", "constant rewards", "ranking", "best-of-N", "vote", "cut off", "single step"),
    *("all right", "all wrong", "equal answers", "no bare question"),
)
"""The checks, the most serious first."""

_EXAMPLES, _EXAMPLE_CHARACTERS, _LOOKED_AT = 2, 80, 50
_CUT_OFF = ("length", "thought")
_DATA = ("dataset", "split", "llm")


def check_health(connection: sa.Connection) -> list[HealthCheck]:
    """Check the data of a database, and return the rows to store."""
    checks = (_solutions, _ways, _graders, _questions, _rewards, _choices)
    return [row for check in checks for row in check(connection)]


def health(source: Source, *, all_checks: bool = False, **names: Unpack[Names]) -> tuple[HealthCheck, ...]:
    """Return the findings, the most serious first. With `all_checks`, checks without a finding are included.

    `llm`, `prm` and `dataset` keep only findings about these. Other names are ignored. Findings about an LLM's
    solutions belong to every PRM.
    """
    table = HealthCheck.__table__
    query = sa.select(*table.columns).order_by(*table.primary_key)
    filters: Mapping[str, Any] = names
    for name in ("llm", "prm", "dataset"):
        if filters.get(name) is not None:
            query = query.where(table.c[name].in_([*filters[name], ""]))
    with connection_of(source) as connection:
        findings = [HealthCheck(**row) for row in connection.execute(query).mappings()]
    severities = ("misleading", "notable", "fine")
    order = dict(zip(_CHECKS, range(len(_CHECKS)), strict=True))
    findings.sort(key=lambda finding: (severities.index(finding.severity), order.get(finding.check, len(order))))
    return tuple(finding for finding in findings if all_checks or finding.severity != "fine")


def _condition_counts(
    connection: sa.Connection, source: Any, data: Sequence[Any], conditions: Mapping[str, sa.ColumnElement[bool]]
) -> Iterator[tuple[dict[str, Any], str, int, int]]:
    """Yield for each part of the data and each check how many rows fulfil its condition, and the number of rows."""
    counts = (sa.func.count().filter(condition) for condition in conditions.values())
    query = sa.select(*data, sa.func.count(), *counts).select_from(source).group_by(*data).order_by(*data)
    for dataset, split, llm, total, *counts_by_check in connection.execute(query).all():
        for check, count in zip(conditions, counts_by_check, strict=True):
            subset = {"dataset": dataset, "split": split, "llm": llm}
            yield subset, check, int(count), int(total)


def _solutions(connection: sa.Connection) -> Iterator[HealthCheck]:
    """Count the solutions without a readable answer, the solutions cut off, and the solutions with a single step."""
    source = sa.join(TrajectoryRow, JobRow, JobRow.job_key == TrajectoryRow.job_key)
    conditions = {
        "unread": TrajectoryRow.verdict == "unparsed",
        **{reason: TrajectoryRow.verdict == reason for reason in _REASONS},
        "cut off": TrajectoryRow.finish_reason.in_(_CUT_OFF),
        "single step": TrajectoryRow.steps == 1,
    }
    for subset, check, count, total in _condition_counts(connection, source, JobRow.columns(*_DATA), conditions):
        severity: Severity = "notable" if count > _NOTABLE_SHARE * total or check in _REASONS else "fine"
        if check == "unread" and count > MOST_UNREAD * total:
            severity = "misleading"
        examples = json.dumps(_examples(connection, subset, check) if check in ("unread", *_REASONS) and count else ())
        if count or check not in _REASONS:
            yield HealthCheck(check=check, **subset, count=count, total=total, severity=severity, examples=examples)


def _ways(connection: sa.Connection) -> Iterator[HealthCheck]:
    """Count the answers that were found in each way."""
    data_columns = JobRow.columns(*_DATA)
    counts = sa.select(*data_columns, TrajectoryRow.found_by, sa.func.count().label("count"))
    counts = counts.join(JobRow, JobRow.job_key == TrajectoryRow.job_key)
    counts = counts.group_by(*data_columns, TrajectoryRow.found_by)
    columns = counts.subquery().c
    total = sa.func.sum(columns["count"]).over(partition_by=[columns[name] for name in _DATA]).label("total")
    for *data, way, count, solutions in connection.execute(sa.select(*columns, total).order_by(*columns)):
        if way is not None:
            subset = dict(zip(_DATA, data, strict=True))
            yield HealthCheck(check=READ + way, **subset, count=int(count), total=int(solutions))


def _graders(connection: sa.Connection) -> Iterator[HealthCheck]:
    """Count on how many answers each other grader differs from the first one, and show some of them."""
    grader = sa.func.json_extract_string(JobRow.parameters, "$.grader.name").label("grader")
    columns = (*JobRow.columns(*_DATA), grader, Verdict.agrees, Verdict.answer, QuestionRow.answer.label("reference"))
    query = sa.select(*columns).select_from(Verdict).join(JobRow, JobRow.job_key == Verdict.job_key)
    query = query.join(QuestionRow, of_job(Verdict.question_id)).order_by(Verdict.question_id, Verdict.trajectory)
    for (*data, name), rows in frame(connection, query).groupby([*_DATA, "grader"]):
        disagreements = rows[~rows["agrees"].astype(bool)]
        pairs = disagreements.drop_duplicates(["answer", "reference"]).head(_EXAMPLES)
        subset = {"check": GRADER + str(name), **dict(zip(_DATA, data, strict=True)), "severity": "notable"}
        examples = json.dumps([f"{pair.answer} for {pair.reference}" for pair in pairs.itertuples()])
        yield HealthCheck(**subset, count=len(disagreements), total=len(rows), examples=examples)


def _examples(connection: sa.Connection, subset: dict[str, str], check: str) -> list[str]:
    column = TrajectoryRow.text if check == "unread" else TrajectoryRow.answer
    of_subset = (getattr(JobRow, name) == value for name, value in subset.items())
    query = sa.select(column).join(JobRow, JobRow.job_key == TrajectoryRow.job_key)
    query = query.where(
        *of_subset, column.is_not(None), TrajectoryRow.verdict == {"unread": "unparsed"}.get(check, check)
    )
    query = query.order_by(TrajectoryRow.question_id, TrajectoryRow.trajectory).limit(_LOOKED_AT)
    ends = (str(text).rstrip().rpartition("\n")[2].strip() for text in connection.execute(query).scalars())
    different = list(dict.fromkeys(ends))[:_EXAMPLES]
    return [end if len(end) <= _EXAMPLE_CHARACTERS else f"...{end[-_EXAMPLE_CHARACTERS:]}" for end in different]


def _questions(connection: sa.Connection) -> Iterator[HealthCheck]:
    """Count the test questions whose solutions are all right, are all wrong, or all have the same answer."""
    data = JobRow.columns(*_DATA)
    by_question = (
        sa.select(
            *data,
            sa.func.bool_and(TrajectoryRow.correct).label("right"),
            sa.func.bool_or(TrajectoryRow.correct).label("any_right"),
            (sa.func.count(sa.distinct(TrajectoryRow.answer)) == 1).label("equal"),
        )
        .join(JobRow, JobRow.job_key == TrajectoryRow.job_key)
        .where(JobRow.split == "test")
        .group_by(*data, TrajectoryRow.job_key, TrajectoryRow.question_id)
        .having(sa.func.count() > 1)
        .subquery()
    )
    columns = by_question.c
    conditions = {
        "all right": columns.right,
        "all wrong": sa.not_(columns.any_right),
        "equal answers": columns.equal,
        "undecided": sa.or_(columns.right, sa.not_(columns.any_right)),
    }
    subset_columns = [columns[name] for name in _DATA]
    for subset, check, count, total in _condition_counts(connection, by_question, subset_columns, conditions):
        severity: Severity = "notable" if count > total / 2 else "fine"
        if check == "undecided":  # Only questions with right and wrong solutions can be ranked.
            severity = "misleading" if count == total else "fine"
        yield HealthCheck(check=check, **subset, count=count, total=total, severity=severity)


def _rewards(connection: sa.Connection) -> Iterator[HealthCheck]:
    """Check the rewards of whole solutions and of bare questions, for each data set, LLM and PRM of the test split."""
    score, graded = aliased(JobRow), graded_jobs()
    group = [score.dataset, score.split, score.llm, score.prm, Reward.job_key, Reward.question_id]
    reward = sa.func.max(Reward.reward).filter(Reward.step == TrajectoryRow.steps).label("reward")
    bare_is_scored = (sa.func.count(Reward.reward).filter(Reward.step == 0) > 0).label("bare")
    same = (TrajectoryRow.question_id == Reward.question_id, TrajectoryRow.trajectory == Reward.trajectory)
    query = sa.select(*group, reward, bare_is_scored, TrajectoryRow.correct)
    query = query.join(score, score.job_key == Reward.job_key).join(JobInput, JobInput.job_key == score.job_key)
    query = query.join(graded, is_graded_for(graded, JobInput.input_key, score))
    query = query.join(TrajectoryRow, sa.and_(TrajectoryRow.job_key == graded.c.graded, *same))
    query = query.where(score.kind == "score", score.split == "test")
    solutions = frame(connection, query.group_by(*group, Reward.trajectory, TrajectoryRow.correct))
    for names, of_prm in solutions.groupby([*_DATA, "prm"], sort=True):
        dataset, split, llm, prm = map(str, names)
        subset: dict[str, Any] = {"dataset": dataset, "split": split, "llm": llm, "prm": prm}
        questions = of_prm.groupby(["job_key", "question_id"])
        total = questions.ngroups
        bare = total - int(questions["bare"].any().sum())
        severity: Severity = "notable" if bare else "fine"
        yield HealthCheck(check="no bare question", **subset, count=bare, total=total, severity=severity)
        values = questions["reward"].nunique()[questions["reward"].count() > 1]
        if len(values):
            tied = int((values == 1).sum())
            severity = "misleading" if tied == len(values) else "notable" if tied > len(values) / 2 else "fine"
            yield HealthCheck(check="constant rewards", **subset, count=tied, total=len(values), severity=severity)
        areas = areas_within(of_prm[of_prm["reward"].notna()])
        if len(areas):
            low, high = (float(end) for end in bounded_interval(areas.to_numpy()))
            severity = "misleading" if high < 0.5 else "notable" if low <= 0.5 else "fine"
            measured = {"value": float(areas.mean()), "low": low, "high": high, "severity": severity}
            yield HealthCheck(check="ranking", **subset, count=len(areas), total=total, **measured)


def areas_within(solutions: pd.DataFrame) -> pd.Series:
    """Return the area under the curve of each question that has right and wrong solutions.

    It is the chance that a right solution has a higher reward than a wrong one. Equal rewards count one half.
    `solutions` has the columns job_key, question_id, reward and correct.
    """
    keys = [solutions["job_key"], solutions["question_id"]]
    correct = solutions["correct"].astype(float)
    ranks = solutions.groupby(["job_key", "question_id"])["reward"].rank()
    right_counts, row_counts = correct.groupby(keys).sum(), correct.groupby(keys).size()
    wrong_counts = row_counts - right_counts
    summed = (ranks * correct).groupby(keys).sum()
    areas: pd.Series = (summed - right_counts * (right_counts + 1) / 2) / (right_counts * wrong_counts)
    return areas[(right_counts > 0) & (wrong_counts > 0)]


def _choices(connection: sa.Connection) -> Iterator[HealthCheck]:
    """Compare each PRM's best-of-N (with the largest N) with one sample and with a plain vote, paired by question."""
    columns = (*Cell.columns("strategy", "dataset", "llm", "prm"), PluginRow.arguments)
    query = sa.select(*columns, *QuestionResult.columns("question_id", "value"))
    query = query.join(PluginRow, sa.and_(PluginRow.kind == "strategy", PluginRow.name == Cell.strategy))
    query = query.join(QuestionResult, QuestionResult.cell_id == Cell.cell_id)
    query = query.where(Cell.leaderboard == "scaling", Cell.status == "done", Cell.calibrator.is_(None))
    values = frame(connection, query.where(QuestionResult.metric == "accuracy"))
    question_keys = ["dataset", "llm", "question_id"]
    best = values[values["strategy"].isin(with_role(connection, "full budget"))]
    # Without the argument, N is the number of all samples.
    with_samples = best.assign(most=[arguments.get("samples", math.inf) for arguments in best["arguments"]])
    best = with_samples.sort_values("most").drop_duplicates([*question_keys, "prm"], keep="last")
    rivals: tuple[tuple[str, Role, int], ...] = (("best-of-N", "one sample", 1), ("vote", "vote", -1))
    for check, role, sign in rivals:
        plain = values.loc[values["strategy"].isin(with_role(connection, role)), [*question_keys, "value"]]
        joined = best.merge(plain.drop_duplicates(question_keys), on=question_keys, suffixes=("", "_plain"))
        joined["difference"] = sign * (joined["value"] - joined["value_plain"])
        for names, of_prm in joined.groupby(["dataset", "llm", "prm"], sort=True):
            low, high = (float(end) for end in bounded_interval(of_prm["difference"].to_numpy(), -1.0, 1.0))
            worse = high < 0 if check == "best-of-N" else low > 0
            subset = dict(zip(("dataset", "llm", "prm"), map(str, names), strict=True)) | {"split": "test"}
            counts = {"count": len(of_prm), "total": len(of_prm), "severity": "notable" if worse else "fine"}
            value = float(of_prm["difference"].mean())
            yield HealthCheck(check=check, **subset, **counts, value=value, low=low, high=high)
