"""The checks of rows and values, and the tiers that repeat work on texts: grades, and scores and fits."""

import math
from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import pandas as pd
from scipy.special import expit

from prmcal.db.text.formats import counted
from prmcal.errors import DataError, PrmcalError
from prmcal.harness.jobs import parameters
from prmcal.harness.jobs.context import PREFIX
from prmcal.harness.jobs.job import TEXTS, Job, Shard
from prmcal.harness.jobs.rollout import chosen_prefixes
from prmcal.harness.share.submissions import Check
from prmcal.harness.share.tables import HASHES, TEXT, text_hashes
from prmcal.harness.storage.store import ArtifactRef, Store
from prmcal.harness.verify.again import NO_TEXTS, TEXT_TABLES, Again, Tolerance
from prmcal.harness.verify.subject import Flaw, Subject
from prmcal.registry.contracts.data import GIVEN
from prmcal.registry.grading import Verdict
from prmcal.registry.messages import excerpt, message_of
from prmcal.steps import split_steps

FITTED, TRAINED = Tolerance(0.0, 1e-4), Tolerance(0.0, 0.05)
"""The distance of a calibrated reward from the stored one. Optimisers stop at other places on other processors, and
calibrators that are trained on hidden states or texts differ the most."""
TOLERANCES = {"float32": (0.001, 0.0), "float16": (0.05, 0.01), "bfloat16": (0.25, 0.01)}
"""The largest distance of a logit from the stored one, and the share of the prefixes that may lie further away."""
_QUANTISED = (0.5, 0.02)
_FEWEST = 5
_TRAJECTORY = PREFIX[:2]


# Graded again


def graded_shards(subject: Subject) -> list[Shard[parameters.Parameters]]:
    """Return the shards whose texts are graded."""
    kinds = ("rollout", "search")  # Published trajectories are not graded.
    return [
        each for each in subject.plan.shards() if each.ref.kind in kinds and each.ref in subject.manifests
    ]


def check_grades(again: Again) -> Iterator[Check]:
    """Compare texts with their hashes, and grade them again."""
    subject, rows = again.subject, 0
    flaws: dict[str, list[Flaw]] = {"texts": [], "grades": []}
    problems: dict[ArtifactRef, str] = {}
    for shard in graded_shards(subject):
        try:
            count, found = _graded(again, shard)
        except PrmcalError as error:
            problems[shard.ref] = excerpt(str(error), 300)
            continue
        rows += count
        for check, number, what in found:
            if number:
                message = f"{subject.plan.job_of(shard.ref)}: {counted(number, 'text')} {what}"
                flaws[check].append(Flaw(message, (shard.ref,)))
    texts = counted(rows, "text")
    yield subject.checked("graded again", "texts", rows, flaws["texts"], f"{texts} match their hashes.")
    passed = (
        f"{texts} have these steps, answers and grades. Success counts cannot be graded again, since the texts of "
        "follow-ups are not kept. Nor can the beams of a search that were not chosen."
    )
    yield subject.checked("graded again", "grades", rows, flaws["grades"], passed)
    yield from subject.unchecked("graded again", "texts that are not here", problems)


def _graded(again: Again, shard: Shard[parameters.Parameters]) -> tuple[int, list[tuple[str, int, str]]]:
    """Return the number of texts of a shard, and how many have which flaw, by the check that it belongs to.

    Raises a DataError if they cannot be graded here. The message says why.
    """
    name, data = TEXT_TABLES[shard.ref.kind], shard.parameters.data
    assert isinstance(shard.parameters, parameters.GeneratingParameters)
    llm, place = shard.parameters.llm, (data.dataset.name, data.split)
    if not again.has_texts(shard.ref):
        raise DataError(NO_TEXTS)
    if place in again.unknown:
        raise DataError(f"the answers are not known: {again.unknown[place]}")
    (planned,) = (each for each in again.subject.plan.datasets if (each.name, each.split) == place)
    here = again.context.dataset(data.dataset).grader_version
    if here != planned.grader_version:
        raise DataError(f"it was graded by version {planned.grader_version}, and this prmcal has {here}")
    stored = again.subject.store.table([shard.ref], name, leave_out="text")
    keys = [each for each in _TRAJECTORY if each in stored]
    texts = again.store.table([shard.ref], name)[[*keys, "text"]]
    every = stored.merge(texts, on=keys, how="left")
    table = every[every["text"].notna()]
    hashes = _wrong_hashes(again.subject.store, shard.ref, table) if name == "trajectories" else 0
    questions = {each.id: each for each in again.questions[place]}
    steps = grades = 0
    for row in table.itertuples():
        verdict, answer = again.context.grade(data.dataset, llm, questions[row.question_id], row.text)
        late = "timed out" in (verdict, row.verdict)  # A busy machine needs longer.
        known = row.answer if isinstance(row.answer, str) else None
        grades += known != answer or not (late or row.verdict == verdict)
        steps += len(split_steps(row.text)) != row.steps
    return len(stored), [
        ("texts", len(every) - len(table), "are not here"),
        ("texts", hashes, "have another hash"),
        ("grades", steps, "have another number of steps"),
        ("grades", grades, "have another answer or grade"),
    ]


def _wrong_hashes(store: Store, ref: ArtifactRef, table: pd.DataFrame) -> int:
    """Return how many texts do not have the hash of the bundle. The folder of a run has no hashes."""
    import pyarrow as pa

    try:
        stored = store.table([ref], HASHES)
    except PrmcalError:
        return 0
    computed = text_hashes(pa.Table.from_pandas(table, preserve_index=False)).to_pandas()
    both = computed.merge(stored, on=_TRAJECTORY, how="left")
    return int((both["text_hash_x"] != both["text_hash_y"]).sum())


# Scored again


def tolerance_of(reference: parameters.PluginReference) -> tuple[float, float]:
    """Return the tolerance of a PRM's logits, and the share of prefixes that may be outside, by its precision.

    A PRM whose arguments do not say its precision is taken to compute in bfloat16, as published weights mostly do.
    """
    arguments = reference.arguments
    if any("quant" in name and value for name, value in arguments.items()):
        return _QUANTISED
    return TOLERANCES.get(str(arguments.get("dtype", "")), TOLERANCES["bfloat16"])


def check_scores(again: Again) -> Iterator[Check]:
    """Score a random share of the trajectories of every job again, at least 5, and compare the logits."""
    subject = again.subject
    flaws: list[Flaw] = []
    problems: dict[ArtifactRef, str] = {}
    trajectories, prefixes, widest = 0, 0, 0.0
    for job in sorted(subject.jobs_here(parameters.ScoreParameters), key=lambda job: job.labels.prm):
        why = again.not_ready(job)
        own, drawn = ([], None) if why else _sampled(again, job)
        again.works(f"scoring {job.labels} again")
        failed = again.compute(own)
        if drawn is None or failed:
            problems |= dict.fromkeys(job.refs, why or next(iter(failed.values()), ""))
            continue
        stored = subject.store.table(job.refs, "rewards")[[*PREFIX, "logit"]]
        computed = again.store.table([each.ref for each in own], "rewards")[[*PREFIX, "logit"]]
        both = stored.merge(drawn, on=_TRAJECTORY).merge(
            computed, on=PREFIX, how="outer", suffixes=("", "_own")
        )
        lost = both["logit"].isna() != both["logit_own"].isna()
        apart = (both["logit"].astype(float) - both["logit_own"].astype(float)).abs().fillna(0.0)
        apart = apart.where(~lost, np.inf)
        tolerance, allowed = tolerance_of(job.shards[0].parameters.prm)
        beyond, largest = int((apart > tolerance).sum()), float(apart.max())
        trajectories, prefixes = trajectories + len(drawn), prefixes + len(both)
        widest = max(widest, largest)
        if beyond > allowed * len(both):
            message = (
                f"{beyond} of {len(both)} logits differ by more than {tolerance:g}, by up to {largest:.3g}"
            )
            flaws.append(Flaw(f"{job.labels}: {message}", job.refs))
    if prefixes or not problems:
        chances = " and ".join(f"{1 - (1 - f) ** trajectories:.0%} (of {f:.0%})" for f in (0.01, 0.05))
        passed = (
            f"The logits of {counted(prefixes, 'prefix', 'prefixes')} of "
            f"{counted(trajectories, 'trajectory', 'trajectories')} differ by at most {widest:.2g}. Altered scores of "
            f"a share of the trajectories are found with a probability of {chances}."
        )
        yield subject.checked("scored again", "scores", prefixes, flaws, passed)
    yield from subject.unchecked("scored again", "scores without a PRM or texts", problems)


def _sampled(
    again: Again, job: Job[parameters.ScoreParameters]
) -> tuple[list[Shard[parameters.Parameters]], pd.DataFrame]:
    """Draw trajectories of a job. Return the shards that score them, and the trajectories."""
    tables = [again.store.table(shard.inputs["rollout"], "trajectories") for shard in job.shards]
    every = pd.concat(tables, keys=range(len(tables)))
    count = min(len(every), max(_FEWEST, math.ceil(again.asked.share * len(every))))
    chosen = again.random("scores", job.key).choice(len(every), count, replace=False)
    drawn = every.iloc[np.sort(chosen)]
    own = [again.own(job.shards[place], part) for place, part in drawn.groupby(level=0)]
    return own, drawn[_TRAJECTORY]


def fits_of(subject: Subject, every: bool) -> tuple[list[Shard[Any]], list[Shard[Any]]]:
    """Return the fits that are repeated, and those that are not because they need the PRM or its hidden states."""
    fits = {job.shards[0].ref: job.shards[0] for job in subject.plan.jobs_of(parameters.FitParameters)}
    done = [each for each in fits.values() if each.ref.key not in subject.failed]
    left = [each for each in done if not every and is_trained(each)]
    return [each for each in done if each not in left], left


def is_trained(shard: Shard[Any]) -> bool:
    """Return whether a calibrator is trained on hidden states or texts."""
    return bool({"hidden", "rollout", TEXTS}.intersection(shard.inputs))


def check_fits(again: Again) -> Iterator[Check]:
    """Fit calibrators again, and compare the rewards that they give with the stored ones."""
    subject = again.subject
    fits, left = fits_of(subject, again.asked.all_fits)
    problems: dict[ArtifactRef, str] = {}
    for fit in fits:
        job = subject.plan.job_of(fit.ref)
        if why := again.not_ready(job) if is_trained(fit) else again.unlike_here(fit):
            problems[fit.ref] = why
    fitted = {fit.ref for fit in fits} - problems.keys()
    rewards = subject.shards_here(parameters.CalibratedParameters)
    readers = [shard for shard in rewards if not fitted.isdisjoint(shard.inputs["fit"])]
    chosen = [*(fit for fit in fits if fit.ref in fitted), *readers]
    read = {ref for shard in chosen for ref in shard.inputs.get("hidden", ())}
    there = {ref for ref, manifest in subject.manifests.items() if manifest.files}  # A bundle has none.
    failed = again.compute([*(each for each in subject.plan.shards() if each.ref in read - there), *chosen])
    problems |= {shard.ref: failed[shard.ref] for shard in chosen if shard.ref in failed}
    flaws = [
        Flaw(
            f"The calibrator of {subject.plan.job_of(shard.ref).labels} was fitted to other data: {each}",
            (shard.ref,),
        )
        for shard in readers
        if shard.ref not in problems
        for each in again.flaws(shard, TRAINED if is_trained(shard) else FITTED)
    ]
    n = len(fitted - problems.keys())
    passed = (
        f"{counted(n, 'calibrator')} give the rewards of {counted(len(readers), 'artifact')} when fitted again, "
        f"to {FITTED.absolute:g} (to {TRAINED.absolute:g} if trained on hidden states or texts)."
    )
    if left:
        names = ", ".join(dict.fromkeys(each.parameters.calibrator.name for each in left))
        passed += (
            f" Not repeated, because that costs a training: {counted(len(left), 'fit')} of {names} "
            "(see --all-fits)."
        )
    yield subject.checked("scored again", "fits repeated", n, flaws, passed)
    yield from subject.unchecked("scored again", "fits that could not be repeated", problems)


_REWARD_TOLERANCE = 1e-3
"""A reward is the logistic function of the logit. PRMs of others may compute it in half precision."""
_COUNTS = ("steps", "tokens", "prompt_tokens", "finished", "rounds", "generations", "generated_tokens")

_TABLES = ("trajectories", "searches", "successes", "rewards", "calibrated_rewards")


def check_rows(subject: Subject) -> Check:
    """Check the artifacts that models made. Those of measurements are computed again instead."""
    count, flaws = 0, []
    for shard in subject.plan.shards():
        if shard.ref not in subject.manifests:
            continue
        try:
            rows, problems = _checked(subject, shard)
        except Exception as error:  # of tables with other columns than a run writes
            rows, problems = 0, [f"its tables are not those of a run ({excerpt(message_of(error), 150)})"]
        count += rows
        flaws += [Flaw(f"{subject.plan.job_of(shard.ref)}: {each}", (shard.ref,)) for each in problems]
    passed = f"{count:,} rows are those that their jobs promise, with possible values."
    return subject.checked("consistent", "rows and values", count, flaws, passed)


def _checked(subject: Subject, shard: Shard[parameters.Parameters]) -> tuple[int, list[str]]:
    """Return the number of rows of an artifact, and what is wrong with them, in sentences without full stops."""
    folder = subject.store.folder(shard.ref)
    problems, count = list[str](), 0
    for name in (each for each in _TABLES if (folder / f"{each}.parquet").exists()):
        rows = subject.store.table([shard.ref], name, leave_out=TEXT)
        count += len(rows)
        problems += [f"it has {wrong.sum()} {what}" for what, wrong in _impossible(name, rows) if wrong.any()]
        problems += _unlike(rows, subject, shard)
    if (folder / f"{HASHES}.parquet").exists():
        table = subject.store.table([shard.ref], "trajectories")
        if TEXT in table and (wrong := _wrong_hashes(subject.store, shard.ref, table)):
            problems.append(f"it has {counted(wrong, 'text')} with another hash")
    return count, problems


def _impossible(name: str, rows: pd.DataFrame) -> Iterator[tuple[str, pd.Series]]:
    """Yield what a table must not have, and which rows of it are so."""
    if name in ("trajectories", "searches"):
        verdict, counts = rows["verdict"], rows[[each for each in _COUNTS if each in rows]]
        yield "verdicts that no grader gives", ~verdict.isin(get_args(Verdict))
        yield "verdicts that contradict 'correct'", rows["correct"] != (verdict == "correct")
        given = rows.get("found_by", verdict) == GIVEN
        yield (
            "verdicts that contradict the answer",
            (rows["answer"].isna() != (verdict == "unparsed")) & ~given,
        )
        yield "negative counts", (counts < 0).any(axis=1)
        yield "rows twice", rows.duplicated([each for each in PREFIX if each in rows])
    if name == "searches":
        yield "searches that are right without a finished beam", (rows["finished"] == 0) & rows["any_correct"]
    if name == "successes":
        k, n = rows["successes"], rows["follow_ups"]
        mixed = rows["terminal"] & (k != 0) & (k != n)
        yield "success counts that are not possible", (k < 0) | (k > n) | mixed
    if name == "rewards":
        rows = rows[~rows["over_long"]]
        apart = (rows["reward"] - expit(rows["logit"].astype(float))).abs()
        yield "rewards that are not those of their logits", ~(apart <= _REWARD_TOLERANCE)
    if "reward" in rows:
        yield "rewards outside [0, 1]", ~rows["reward"].between(0, 1)


def _unlike(rows: pd.DataFrame, subject: Subject, shard: Shard[parameters.Parameters]) -> Iterator[str]:
    """Yield how the rows of a table differ from those that its parameters promise."""
    given = shard.parameters
    asked, place = given.data.questions, (given.data.dataset.name, given.data.split)
    (planned,) = (each for each in subject.plan.datasets if (each.name, each.split) == place)
    ids = [each.id for each in planned.questions[asked.start : asked.stop]]
    match given:
        case parameters.RolloutParameters():
            m = len(given.trajectories)
            wanted = [np.repeat(ids, m), np.tile(list(given.trajectories), len(ids))]
        case parameters.SearchParameters():
            wanted = [np.array(ids)]
        case parameters.SuccessParameters() | parameters.ScoreParameters():
            drawn = subject.store.table(shard.inputs["rollout"], "trajectories", leave_out=TEXT)
            limits: tuple[int | None, int | None] = (None, None)
            if isinstance(given, parameters.SuccessParameters):
                limits = (given.most_prefixes, given.first_prefixes)
                drawn = drawn[drawn["trajectory"] < given.trajectories.stop]
                other = int((rows["follow_ups"] != len(given.follow_ups)).sum())
                if other:
                    yield f"it has {other} prefixes with another number of follow-ups"
            steps = [chosen_prefixes(each, *limits) for each in drawn["steps"]]
            sizes = [len(each) for each in steps]
            wanted = [np.repeat(drawn[name].to_numpy(), sizes) for name in PREFIX[:2]]
            wanted.append(np.concatenate([[], *steps]).astype(np.int64))
        case parameters.CalibratedParameters():
            scored = subject.store.table(shard.inputs["score"], "rewards").sort_values(PREFIX)
            scored = scored[(scored["trajectory"] < given.trajectories.stop) & ~scored["over_long"]]
            levels = rows["level"].unique()
            if not len(levels) or not set(given.levels) <= set(levels):
                yield "it lacks a level"
            wanted = [np.tile(scored[name].to_numpy(), len(levels)) for name in PREFIX]
        case _:
            if not rows["question_id"].isin(ids).all():
                yield "it has rows of other questions"
            return
    same = len(rows) == len(wanted[0])
    if not same or not all(
        np.array_equal(rows[name], each) for name, each in zip(PREFIX, wanted, strict=False)
    ):
        yield f"it has {len(rows)} rows, and the {len(wanted[0])} that belong there are others"
