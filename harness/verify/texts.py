"""The tiers that repeat work on texts: grades, and scores and fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prmcal.db.text.formats import counted
from prmcal.errors import PrmcalError
from prmcal.harness.jobs.calibrators import PREFIX
from prmcal.harness.jobs.context import Context
from prmcal.harness.jobs.job import Job, Shard
from prmcal.harness.jobs.parameters import (
    CalibratedParameters,
    FitParameters,
    Parameters,
    PluginReference,
    ScoreParameters,
)
from prmcal.harness.share.tables import HASHES, text_hashes
from prmcal.harness.share.verify_record import Check
from prmcal.harness.storage.store import ArtifactRef, Store, content_key, seed_from_key
from prmcal.harness.verify.again import TEXT_TABLES, Again, Tolerance, own_shard
from prmcal.harness.verify.plan import Place
from prmcal.harness.verify.subject import Flaw, Subject
from prmcal.registry.messages import excerpt
from prmcal.steps import split_steps

if TYPE_CHECKING:
    import pandas as pd


FITTED, TRAINED = Tolerance(0.0, 1e-4), Tolerance(0.0, 0.05)
"""How far a calibrated reward may lie from the stored one. Optimisers stop at other places on other processors, and
calibrators that are trained on hidden states or texts differ the most."""
TOLERANCES = {"float32": (0.001, 0.0), "float16": (0.05, 0.01), "bfloat16": (0.25, 0.01)}
"""How far a logit may lie from the stored one, and which share of the prefixes may lie further away."""
_QUANTISED = (0.5, 0.02)
_FEWEST = 5
_NO_TEXTS = "its texts are not in the submission. Give them with --texts-from"
_TRAJECTORY = PREFIX[:2]

Unknown = dict[Place, str]
"""Why questions are not known, by data set and split."""


def random_of(seed: int, *about: str) -> np.random.Generator:
    """Return random numbers that follow from the seed of the verification and from what they are drawn for."""
    return np.random.default_rng(seed_from_key(content_key([seed, *about])))


def jobs_here(subject: Subject, kind: type[Parameters]) -> list[Job[Any]]:
    """Return the jobs of a kind whose artifacts are here, each once."""
    return list({job.key: job for job in subject.plan.jobs_of(kind) if subject.present(job)}.values())


# Graded again


def graded_shards(subject: Subject) -> list[Shard[Parameters]]:
    """Return the shards whose texts are graded."""
    kinds = ("rollout", "search")  # Published trajectories are not graded.
    return [
        each for each in subject.plan.shards() if each.ref.kind in kinds and each.ref in subject.manifests
    ]


def check_grades(again: Again, unknown: Unknown) -> Iterator[Check]:
    """Compare texts with their hashes, and grade them again."""
    subject, context = again.subject, Context(again.store)
    versions = {(each.name, each.split): each.grader_version for each in subject.plan.datasets}
    rows, flaws = 0, {"texts": list[Flaw](), "grades": list[Flaw]()}
    problems: dict[ArtifactRef, str] = {}
    for shard in graded_shards(subject):
        data = shard.parameters.data
        place = data.dataset.name, data.split
        try:
            here = context.dataset(data.dataset).grader_version
            if not again.has_texts(shard.ref):
                problems[shard.ref] = _NO_TEXTS
            elif place not in again.questions or place in unknown:
                problems[shard.ref] = f"the answers are not known: {unknown[place]}"
            elif here != versions[place]:
                problems[shard.ref] = (
                    f"it was graded by version {versions[place]}, and this prmcal has {here}"
                )
            else:
                count, found = _graded(again, shard, context)
                rows += count
                for name, number, what in found:
                    if number:
                        message = f"{subject.plan.job_of(shard.ref)}: {counted(number, 'text')} {what}"
                        flaws[name].append(Flaw(message, (shard.ref,)))
        except PrmcalError as error:
            problems[shard.ref] = excerpt(str(error), 200)
    texts = counted(rows, "text")
    yield subject.checked("graded again", "texts", rows, flaws["texts"], f"{texts} match their hashes.")
    passed = (
        f"{texts} have these steps, answers and grades. Success counts cannot be graded again, since the texts of "
        "follow-ups are not kept. Nor can the beams of a search that were not chosen."
    )
    yield subject.checked("graded again", "grades", rows, flaws["grades"], passed)
    yield from subject.unchecked("graded again", "texts that are not here", problems)


def _graded(
    again: Again, shard: Shard[Parameters], context: Context
) -> tuple[int, list[tuple[str, int, str]]]:
    """Return the number of texts of a shard, and how many have which flaw, by the check that it belongs to."""
    name, data = TEXT_TABLES[shard.ref.kind], shard.parameters.data
    stored = again.subject.store.read(shard.ref.kind, shard.ref.key, name, leave_out="text").to_pandas()
    keys = [each for each in _TRAJECTORY if each in stored]
    texts = again.store.read(shard.ref.kind, shard.ref.key, name).to_pandas()[[*keys, "text"]]
    table = stored.merge(texts, on=keys, how="left")
    absent = int(table["text"].isna().sum())
    table = table[table["text"].notna()]
    hashes = _wrong_hashes(again.subject.store, shard.ref, table) if name == "trajectories" else 0
    questions = {each.id: each for each in again.questions[data.dataset.name, data.split]}
    steps = grades = 0
    for row in table.itertuples():
        verdict, answer = context.grade(data.dataset, questions[row.question_id], row.text)
        late = "timed out" in (verdict, row.verdict)  # A busy machine needs longer.
        known = row.answer if isinstance(row.answer, str) else None
        grades += known != answer or not (late or row.verdict == verdict)
        steps += len(split_steps(row.text)) != row.steps
    return len(stored), [
        ("texts", absent, "are not here"),
        ("texts", hashes, "have another hash"),
        ("grades", steps, "have another number of steps"),
        ("grades", grades, "have another answer or grade"),
    ]


def _wrong_hashes(store: Store, ref: ArtifactRef, table: pd.DataFrame) -> int:
    """Return how many texts do not have the hash of the bundle. The folder of a run has no hashes."""
    import pyarrow as pa

    try:
        stored = store.read(ref.kind, ref.key, HASHES).to_pandas()
    except PrmcalError:
        return 0
    computed = text_hashes(pa.Table.from_pandas(table, preserve_index=False)).to_pandas()
    both = computed.merge(stored, on=_TRAJECTORY, how="left")
    return int((both["text_hash_x"] != both["text_hash_y"]).sum())


# Scored again


def tolerance_of(reference: PluginReference) -> tuple[float, float]:
    """Return the tolerance of a PRM's logits, and the share of prefixes that may be outside, by its precision.

    A PRM whose arguments do not say its precision is taken to compute in bfloat16, as published weights mostly do.
    """
    arguments = reference.arguments
    if any("quant" in name and value for name, value in arguments.items()):
        return _QUANTISED
    return TOLERANCES.get(str(arguments.get("dtype", "")), TOLERANCES["bfloat16"])


def check_scores(
    again: Again, unknown: Unknown, share: float, seed: int, works: Callable[[str], None]
) -> Iterator[Check]:
    """Score a random share of the trajectories of every job again, at least 5, and compare the logits.

    Parameters
    ----------
    again : Again
    unknown : dict
        Why questions are not known, by data set and split.
    share : float
        The share of trajectories, in (0, 1].
    seed : int
        The seed of the verification.
    works : callable
        Takes a line about the progress.
    """
    subject = again.subject
    flaws: list[Flaw] = []
    problems: dict[ArtifactRef, str] = {}
    trajectories, prefixes, widest = 0, 0, 0.0
    for job in sorted(jobs_here(subject, ScoreParameters), key=lambda job: job.labels.prm):
        why = not_ready(again, job, unknown)
        sampled = {} if why else _sampled(again, job, share, seed)
        works(f"scoring {job.labels} again")
        failed = again.compute([own for own, _ in sampled.values()])
        if why or failed:
            problems |= dict.fromkeys(job.refs, why or next(iter(failed.values())))
            continue
        apart: list[NDArray[np.float64]] = []
        for shard, (own, drawn) in sampled.items():
            stored = _rewards(subject.store, shard).merge(drawn, on=_TRAJECTORY)
            both = stored.merge(_rewards(again.store, own.ref), on=PREFIX, how="outer", suffixes=("", "_own"))
            lost = both["logit"].isna() != both["logit_own"].isna()
            distance = (both["logit"].astype(float) - both["logit_own"].astype(float)).abs().fillna(0.0)
            apart.append(distance.where(~lost, np.inf).to_numpy())
            trajectories += len(drawn)
        found = np.concatenate(apart)
        tolerance, allowed = tolerance_of(job.shards[0].parameters.prm)
        beyond = int((found > tolerance).sum())
        prefixes, widest = prefixes + len(found), max(widest, float(found.max(initial=0.0)))
        if beyond > allowed * len(found):
            message = f"{beyond} of {len(found)} logits differ by more than {tolerance:g}, by up to {found.max():.3g}"
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


def not_ready(again: Again, job: Job[Any], unknown: Unknown) -> str:
    """Return why a job cannot be repeated with a model on this machine, or nothing."""
    place = job.labels.dataset, job.labels.split
    if place in unknown:
        return f"the questions are not known: {unknown[place]}"
    # Fits read the scores of the PRM that they are trained with.
    models = [job, *(source for source in job.inputs if source.kind == "score")]
    read = [ref for each in models for shard in each.shards for ref in shard.inputs.get("rollout", ())]
    if any(ref.kind in TEXT_TABLES and not again.has_texts(ref) for ref in read):
        return _NO_TEXTS
    return next((why for each in models if (why := again.unlike_here(each.shards[0]))), "")


def _rewards(store: Store, ref: ArtifactRef) -> pd.DataFrame:
    return store.read(ref.kind, ref.key, "rewards").to_pandas()[[*PREFIX, "logit"]]


def _sampled(
    again: Again, job: Job[ScoreParameters], share: float, seed: int
) -> dict[ArtifactRef, tuple[Shard[Parameters], pd.DataFrame]]:
    """Draw trajectories of a job. Return the shards that score them, and the trajectories, by the stored artifacts."""
    import pandas as pd

    tables = [trajectories_of(again.store, shard.inputs["rollout"]) for shard in job.shards]
    every = pd.concat([table.assign(place=place) for place, table in enumerate(tables)], ignore_index=True)
    count = min(len(every), max(_FEWEST, math.ceil(share * len(every))))
    chosen = random_of(seed, "scores", job.key).choice(len(every), count, replace=False)
    drawn = every.iloc[np.sort(chosen)]
    found = {}
    for place, shard in enumerate(job.shards):
        table = drawn[drawn["place"] == place].drop(columns="place")
        if len(table):
            source = ArtifactRef("rollout", content_key(["own", seed, shard.ref.key]))
            again.write(source, {"trajectories": table})
            found[shard.ref] = own_shard(shard, seed, inputs={"rollout": (source,)}), table[_TRAJECTORY]
    return found


def trajectories_of(store: Store, refs: Sequence[ArtifactRef]) -> pd.DataFrame:
    """Return the trajectories of some artifacts in one table."""
    import pandas as pd

    tables = [store.read(ref.kind, ref.key, "trajectories").to_pandas() for ref in refs]
    return pd.concat(tables, ignore_index=True)


def fits_of(subject: Subject, every: bool) -> tuple[list[Shard[Any]], list[Shard[Any]]]:
    """Return the fits that are repeated, and those that are not because they need the PRM or its hidden states."""
    fits = {job.shards[0].ref: job.shards[0] for job in subject.plan.jobs_of(FitParameters)}
    done = [each for each in fits.values() if each.ref.key not in subject.failed]
    return [each for each in done if every or not _trained(each)], [
        each for each in done if not every and _trained(each)
    ]


def _trained(shard: Shard[Any]) -> bool:
    return bool({"hidden", "rollout"}.intersection(shard.inputs))


def check_fits(again: Again, unknown: Unknown, every: bool, works: Callable[[str], None]) -> Iterator[Check]:
    """Fit calibrators again, and compare the rewards that they give with the stored ones.

    Parameters
    ----------
    again : Again
    unknown : dict
        Why questions are not known, by data set and split.
    every : bool
        Whether fits that need the PRM or its hidden states are repeated too.
    works : callable
        Takes a line about the progress.
    """
    subject = again.subject
    fits, left = fits_of(subject, every)
    problems: dict[ArtifactRef, str] = {}
    for fit in fits:
        job = subject.plan.job_of(fit.ref)
        why = not_ready(again, job, unknown) if _trained(fit) else again.unlike_here(fit)
        if why:
            problems[fit.ref] = why
    fitted = {fit.ref for fit in fits} - problems.keys()
    readers = [
        shard
        for job in jobs_here(subject, CalibratedParameters)
        for shard in job.shards
        if not fitted.isdisjoint(shard.inputs["fit"])
    ]
    chosen = [*(fit for fit in fits if fit.ref in fitted), *readers]
    read = {ref for shard in chosen for ref in shard.inputs.get("hidden", ())}
    there = {
        ref for ref, manifest in subject.manifests.items() if manifest.files
    }  # A bundle has none of their files.
    hidden = [each for each in subject.plan.shards() if each.ref in read - there]
    failed = again.compute([*hidden, *chosen], works=works)
    problems |= {shard.ref: failed[shard.ref] for shard in chosen if shard.ref in failed}
    flaws = []
    for shard in readers:
        if shard.ref not in problems:
            tolerance = TRAINED if _trained(shard) else FITTED
            where = subject.plan.job_of(shard.ref).labels
            flaws += [
                Flaw(f"The calibrator of {where} was fitted to other data: {each}", (shard.ref,))
                for each in again.flaws(shard, tolerance)
            ]
    n = len(fitted - problems.keys())
    names = ", ".join(dict.fromkeys(each.parameters.calibrator.name for each in left))
    not_done = f" Not repeated, because that costs a training: {counted(len(left), 'fit')} of {names} (see --all-fits)."
    yield subject.checked(
        "scored again",
        "fits repeated",
        n,
        flaws,
        f"{counted(n, 'calibrator')} give the rewards of {counted(len(readers), 'artifact')} when fitted again, "
        f"to {FITTED.absolute:g} (to {TRAINED.absolute:g} if trained on hidden states or texts)."
        f"{not_done if left else ''}",
    )
    yield from subject.unchecked("scored again", "fits that could not be repeated", problems)
