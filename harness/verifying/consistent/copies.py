"""Copies: trajectories that are given as new samples, although they are those of another seed or another LLM.

Two honest sets of samples have equal texts too, if the LLM repeats itself. So the sets are compared with themselves:

- A text of one set is as likely to be at any place of the other. Equal texts at equal places must therefore be as
  frequent as at different places. Their number is compared with a Poisson distribution whose mean is the expected
  number, times M / (M - 1), which is at least its variance.
- Which of the samples of a question belong to which set is as good as drawn. So each set has exactly the same texts as
  the other with a known probability, and of the texts that occur twice, a known share occurs once on either side.

The last two find copies in another order. The p values are multiplied by the number of tests (Bonferroni).

Artifacts with equal keys are left out: their texts are equal if somebody repeats the grid with the same seeds. They are
counted instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prmcal.db.text.formats import counted
from prmcal.errors import PrmcalError
from prmcal.harness.bundles.digests import HASHES, text_hashes
from prmcal.harness.jobs.job import Job
from prmcal.harness.jobs.parameters import RolloutParameters
from prmcal.harness.storage.keys import ArtifactRef
from prmcal.harness.storage.store import Store
from prmcal.harness.verifying.findings import Flaw, concluded
from prmcal.harness.verifying.record import Check
from prmcal.harness.verifying.subject import Subject, read_subject

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LEVEL", "check_copies", "copied"]

LEVEL = 1e-6
"""The largest probability that honest samples of a whole bundle are called copies."""


def check_copies(subject: Subject, against: Sequence[Path]) -> Check:
    """Check that no trajectories are copies of others, in the submission or in the folders `against`.

    Parameters
    ----------
    subject : Subject
    against : sequence of Path
        Folders of runs, or merged leaderboards.

    Returns
    -------
    Check
        Trajectories with the keys of others pass. Its message says how many there are.

    Raises
    ------
    PrmcalError
        If one of the folders has no run.
    """
    own = _sets(subject, "")
    known = {folder: _sets(read_subject(folder), f" of {folder}") for folder in against}
    others = [each for sets in known.values() for each in sets]
    pairs = [(one, other) for place, one in enumerate(own) for other in (*own[place + 1 :], *others)]
    compared = [(one, other) for one, other in pairs if one.shares_questions(other)]
    flaws = []
    for one, other in compared:
        found = copied(one.without(other), other.without(one))
        if found is not None and found.p_value * len(compared) < LEVEL:
            refs = one.refs + (() if other.folder else other.refs)
            flaws.append(
                Flaw(
                    f"The trajectories of {one.name} are copies of those of {other.name}: {found.told}", refs
                )
            )
    told = [
        f"None of {len(compared)} pairs of sets of trajectories over the same questions are copies (level {LEVEL:g})."
        if compared
        else "There are no two sets of trajectories over the same questions with different keys to compare.",
        *(_repeated(own, sets, folder) for folder, sets in known.items()),
        "" if against else "Give --against DIR to compare with other results.",
    ]
    passed = " ".join(filter(None, told))
    n = sum(len(each.table) for each in own)
    return concluded(subject, "consistent", "copied trajectories", n, flaws, passed)


@dataclass(frozen=True, eq=False)
class _Samples:
    """The hashes of the trajectories of a job: a table with question_id, trajectory, text_hash and the artifact."""

    name: str
    folder: str
    refs: tuple[ArtifactRef, ...]
    table: pd.DataFrame

    def shares_questions(self, other: _Samples) -> bool:
        """Return whether the two have different artifacts of the same questions."""
        return self.refs != other.refs and bool(
            set(self.table["question_id"].unique()) & set(other.table["question_id"].unique())
        )

    def without(self, other: _Samples) -> pd.DataFrame:
        """Return the trajectories without those of artifacts that the other has too."""
        return self.table[~self.table["key"].isin({ref.key for ref in other.refs})]


def _sets(subject: Subject, where: str) -> list[_Samples]:
    import pandas as pd

    found: dict[str, _Samples] = {}
    for job in subject.plan.jobs_of(RolloutParameters):
        refs = [ref for ref in job.refs if ref in subject.manifests]
        if refs and job.key not in found:
            table = pd.concat([_hashes(subject.store, ref) for ref in refs], ignore_index=True)
            found[job.key] = _Samples(f"{_told(job)}{where}", where, job.refs, table)
    return list(found.values())


def _repeated(own: Sequence[_Samples], others: Sequence[_Samples], folder: Path) -> str:
    """Return how many trajectories have the keys of artifacts in a folder, in sentences; empty if none do."""
    columns = ["key", "question_id", "trajectory", "text_hash"]
    rows, known = (
        {row for each in sets for row in each.table[columns].itertuples(index=False, name=None)}
        for sets in (own, others)
    )
    keys = {key for key, *_ in known}
    shared = sum(key in keys for key, *_ in rows)
    if not shared:
        return ""
    equal = len(rows & known)
    told = f"Artifacts in {folder} have the keys of {counted(shared, 'trajectory', 'trajectories')}."
    if equal:
        told += (
            f" {equal:,} of them are equal: they are the same results, or a repetition with the same seeds, and count "
            "once in a merged leaderboard."
        )
    if equal < shared:
        told += f" {shared - equal:,} of them differ, which a merged leaderboard shows as a conflict."
    return told


def _told(job: Job[RolloutParameters]) -> str:
    return str(job.labels)


def _hashes(store: Store, ref: ArtifactRef) -> pd.DataFrame:
    try:
        table = store.read(ref.kind, ref.key, HASHES)
    except PrmcalError:  # The folder of a run has the texts themselves.
        table = text_hashes(store.read(ref.kind, ref.key, "trajectories"))
    return table.to_pandas().assign(key=ref.key)


@dataclass(frozen=True, slots=True)
class Copied:
    """How likely two sets of samples are as alike as they are if they are independent, and what is alike."""

    p_value: float
    told: str


def copied(one: pd.DataFrame, other: pd.DataFrame) -> Copied | None:
    """Compare two sets of samples of the same questions.

    Parameters
    ----------
    one, other : DataFrame
        With the columns question_id, trajectory and text_hash.

    Returns
    -------
    Copied or None
        The smallest of three p values, times 3; None if they have no text in common.
    """
    from scipy.special import bdtrc, pdtrc  # `scipy.stats` takes a second to import.

    if not set(one["text_hash"]) & set(other["text_hash"]):
        return None
    same, expected, samples = 0, 0.0, 0
    doubles = crossing = 0
    share = 0.0
    equal: list[float] = []
    equal_sets = 0
    for texts in _by_question(one, other):
        m = texts.shape[1]
        if m < 2:
            continue
        different, codes = np.unique(texts, return_inverse=True)
        counts = np.stack([np.bincount(part, minlength=len(different)) for part in codes.reshape(2, m)])
        total = counts.sum(axis=0)
        samples += m
        same += int((texts[0] == texts[1]).sum())
        expected += float((counts[0] * counts[1]).sum()) / (m - 1)
        doubles += int((total == 2).sum())
        crossing += int(((total == 2) & (counts[0] == 1)).sum())
        share = max(share, m / (2 * m - 1))
        equal.append(_probability_of_equal(total, m))
        equal_sets += bool((counts[0] == counts[1]).all())
    if not samples:
        return None
    found = [
        Copied(
            float(pdtrc(same - 1, expected)) if same else 1.0,
            f"{same:,} of {samples:,} texts are the same at the same place, and {expected:,.1f} were expected",
        ),
        Copied(
            _tail(np.array(equal), equal_sets),
            f"all texts of {equal_sets} of {len(equal)} questions are the same in another order",
        ),
        Copied(
            float(bdtrc(crossing - 1, doubles, share)) if crossing else 1.0,
            f"{crossing:,} of {doubles:,} texts that occur twice are in both, and {doubles * share:,.1f} were expected",
        ),
    ]
    best = min(found, key=lambda each: each.p_value)
    return Copied(min(1.0, best.p_value * len(found)), best.told)


def _by_question(one: pd.DataFrame, other: pd.DataFrame) -> list[NDArray[np.int64]]:
    """Return numbers of the texts at the places of each question that both have: arrays of shape (2, places)."""
    import pandas as pd

    both = one.merge(other, on=["question_id", "trajectory"]).sort_values("question_id", kind="stable")
    texts = np.concatenate([both["text_hash_x"], both["text_hash_y"]])
    numbers = pd.factorize(texts)[0].reshape(2, len(both))
    question = pd.factorize(both["question_id"])[0]
    return np.split(numbers, np.flatnonzero(np.diff(question)) + 1, axis=1)


def _probability_of_equal(total: NDArray[np.int64], m: int) -> float:
    """Return the probability that 2m samples with these counts fall into two equal halves of m."""
    from scipy.special import gammaln

    if (total % 2).any():
        return 0.0

    def log_binomial(n: NDArray[np.int64] | int) -> NDArray[np.float64]:
        return np.asarray(gammaln(np.asarray(n) + 1) - 2 * gammaln(np.asarray(n) / 2 + 1))

    return float(np.exp(log_binomial(total).sum() - log_binomial(2 * m)))


def _tail(probabilities: NDArray[np.float64], at_least: int) -> float:
    """Return the probability that at least so many of independent events happen."""
    distribution = np.ones(1)
    for each in probabilities:
        distribution = np.convolve(distribution, [1 - each, each])
    return float(min(1.0, distribution[at_least:].sum()))
