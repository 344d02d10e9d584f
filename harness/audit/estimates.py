"""Measurements of scored solutions: errors, and calibrators by folds over questions.

Every interval is over questions. A calibrator is never measured on questions that it was fitted or chosen on.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

from prmcal.arrays import Bools, Floats, Ints
from prmcal.db.statistics.bootstrap import Bootstrap, Ratio, Statistic, estimate
from prmcal.db.statistics.intervals import (
    Estimate,
    IntervalRule,
    bounded_interval,
    error_interval,
    gain_interval,
    signed_interval,
)
from prmcal.harness.audit.detection import Detection, PrmScore, detection, prm_scores
from prmcal.harness.audit.scored import Scored
from prmcal.log_odds import log_odds
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.metric import PrefixRows
from prmcal.registry.metrics.scores import AUROCWithin
from prmcal.registry.plugins import calibrators

CALIBRATORS = ("temperature", "platt", "beta", "isotonic", "histogram")
"""Those that read the score alone, and are fitted in seconds to a million prefixes."""
ORDER_ALONE = ("isotonic", "histogram")
"""Those of them that read the order of the scores alone."""

OUTER, INNER = 5, 4
"""Folds over questions: those that measure, and those within their complement that choose."""

_UPPER = 0.975
_BINS = 10
_GROUPS = 5_000
"""A fit reads this many rows at most, which takes a second at most for a million prefixes."""
LEAST_MIXED = 10
"""Questions with right and wrong solutions that an AUC needs to be told."""
LEAST_INFORMATIVE = 10
"""Informative questions that a verdict on calibrators needs. See ``python -m benchmarks.statistics.audit_coverage``."""
_UNEVEN = 0.5
"""The share of the questions that count in effect, below which each question counts the same."""
_BOOTSTRAP = Bootstrap(1000, 0)


@dataclass(frozen=True)
class Number(Estimate):
    """A value with its 95% interval over questions, and their number."""

    questions: int


@dataclass(frozen=True)
class Bin:
    """Prefixes with like scores: a point of the reliability diagram."""

    score: float
    """Their mean reward."""
    right: Number
    """Their mean label."""
    prefixes: int


@dataclass(frozen=True, eq=False)
class Measured:
    """Everything that an audit measures."""

    signed_error: Number
    """Mean of reward - label over all prefixes."""
    by_step: dict[str, Number]
    by_level: dict[str, Number]
    """The same for parts of the prefixes."""
    order: Number | None
    """AUC within the questions that have right and wrong solutions (of labels of steps: prefixes); None if none has."""
    said: tuple[Bin, ...]
    """The prefixes whose scores are near .1, .3, .5, .7 and .9; of ranks, fifths of the prefixes."""
    informative: int
    """The number of questions with something right, or of those with something wrong, whichever is smaller."""
    even: bool
    """Whether each question counts the same, since a few have most of the prefixes."""
    brier: Number
    gain: Number
    """Mean Brier reduction by the calibrators that are chosen and fitted without a fold, on new questions."""
    chosen: str
    """The calibrator that is chosen on all questions; "" if none is better than the scores as they are."""
    gains: dict[str, Number]
    """The same reduction by each calibrator, without a choice."""
    reliability: dict[str, tuple[Bin, ...]]
    """Bins of equally many prefixes: of the scores "as they are", and "calibrated" on questions that the fit and the
    choice have not seen."""
    detection: tuple[Detection, ...]
    """The success at finding the first wrong step, if people have marked it; empty otherwise."""
    prm_scores: tuple[PrmScore, ...]
    """PRMScore, if people have marked each step; empty otherwise."""

    @property
    def is_repaired(self) -> bool:
        """Whether a calibrator clearly helps: the reduction is above 0, and enough questions are informative."""
        return bool(self.chosen) and self.gain.low > 0 and self.informative >= LEAST_INFORMATIVE


class Rows:
    """Prefixes as arrays: what calibrators and metrics read."""

    def __init__(self, prefixes: pd.DataFrame) -> None:
        self.question: Ints = prefixes["question"].to_numpy(np.int64)
        self.reward: Floats = prefixes["reward"].to_numpy(np.float64)
        self.label: Floats = prefixes["label"].to_numpy(np.float64)
        self.n: Ints = np.full(len(prefixes), draws_of(self.label), dtype=np.int64)
        self.k: Ints = np.rint(self.label * self.n).astype(np.int64)

    @cached_property
    def is_uneven(self) -> bool:
        """Whether a few questions have most of the rows."""
        counts = np.bincount(self.question)
        counts = counts[counts > 0].astype(np.float64)
        return bool(counts.sum() ** 2 / (counts**2).sum() < _UNEVEN * len(counts))

    @property
    def logit(self) -> Floats:
        """The log-odds of the rewards, which are kept off 0 and 1."""
        return log_odds(self.reward)

    def features(self, calibrator: Calibrator) -> Floats:
        """Return what a calibrator reads."""
        return self.logit if calibrator.reads == "logit" else self.reward


def draws_of(labels: Floats) -> int:
    """Return the fewest draws n with which all labels are k of n; 1000 if there are none below."""
    for n in range(1, 129):
        if np.abs(labels * n - np.rint(labels * n)).max(initial=0.0) < 1e-6 * n:
            return n
    return 1000


def fitted(name: str, rows: Rows, chosen: Bools | slice = slice(None)) -> Calibrator:
    """Return a calibrator that is fitted to some of the prefixes. Of many, those with like scores are joined."""
    calibrator: Calibrator = calibrators.create(name)
    values, k, n = rows.features(calibrator)[chosen], rows.k[chosen], rows.n[chosen]
    if len(values) > _GROUPS:
        order, starts = values.argsort(), np.arange(_GROUPS) * len(values) // _GROUPS
        sizes = np.diff(starts, append=len(values))
        values = np.add.reduceat(values[order], starts) / sizes
        k, n = np.add.reduceat(k[order], starts), np.add.reduceat(n[order], starts)
    calibrator.fit(values, k, n)
    return calibrator


def predicted(calibrator: Calibrator, rows: Rows, chosen: Bools | slice = slice(None)) -> Floats:
    """Return the calibrated rewards of some of the prefixes."""
    return calibrator.predict(rows.features(calibrator)[chosen])[:, 0]


def measured(found: Scored) -> Measured:
    """Measure scored solutions."""
    rows = Rows(found.prefixes)
    squared = (rows.reward - rows.label) ** 2
    honest = {name: np.empty(len(squared)) for name in CALIBRATORS}
    selected = np.empty(len(squared))
    names = ORDER_ALONE if found.scale.name == "rank" else CALIBRATORS
    for held, best in chosen_in_folds(rows, names):
        for name in names:
            honest[name][held] = predicted(fitted(name, rows, ~held), rows, held)
        selected[held] = honest[best][held] if best else rows.reward[held]
    chosen = _best(rows, slice(None), names)
    gain = over_folds(squared - (selected - rows.label) ** 2, rows, gain_interval)
    judged = (found.prefixes, selected if chosen else None, _levels(found), _BOOTSTRAP)
    return Measured(
        signed_error=mean_of(rows.reward - rows.label, rows, signed_interval),
        by_step=_by_step(found.prefixes, rows),
        by_level=_by_level(found, rows),
        order=_order(found),
        said=_said(rows, found.scale.name == "rank"),
        informative=_informative(rows),
        even=rows.is_uneven,
        brier=mean_of(squared, rows, error_interval),
        gain=gain,
        chosen=chosen,
        gains={name: over_folds(squared - (honest[name] - rows.label) ** 2, rows, gain_interval) for name in names},
        reliability={
            "as they are": _bins(rows.reward, rows),
            **({"calibrated": _bins(selected, rows)} if chosen else {}),
        },
        detection=detection(*judged) if found.target == "first error" else (),
        prm_scores=prm_scores(*judged) if found.target == "step" else (),
    )


def area_within(frame: pd.DataFrame) -> Number | None:
    """Return the AUC within the questions of a table of rewards and labels; None if no question has both outcomes."""
    areas = areas_within(frame)
    return mean_of_questions(areas) if len(areas) else None


def areas_within(frame: pd.DataFrame) -> Floats:
    """Return the AUC of each question that has both outcomes, of shape (mixed questions,)."""
    frame = frame.dropna(subset=["reward", "label"]).astype({"label": np.float64})
    if frame.empty:
        return np.zeros(0)
    rows = Rows(frame)
    area = AUROCWithin().measure(PrefixRows(rows.reward, rows.k, rows.n, rows.question))
    return np.zeros(0) if area is None else area.sums[area.counts > 0]


def mean_of_questions(values: Floats, lowest: float = 0.0) -> Number:
    """Return the mean of a value in [lowest, 1] for each question, with its interval."""
    low, high = (float(end) for end in bounded_interval(values, lowest, 1.0))
    return Number(float(values.mean()), low, high, len(values))


def _order(found: Scored) -> Number | None:
    """Return the AUC within questions: of whole solutions by their outcome, or else of prefixes by their labels."""
    if found.target == "outcome":
        return area_within(found.solutions)
    steps = found.prefixes[found.prefixes["step"] > 0]
    return area_within(steps.drop_duplicates(["question", "step", "score", "label"]))


def _informative(rows: Rows) -> int:
    """Return how many questions have something right, or how many have something wrong: the smaller number."""
    right, wrong = (len(np.unique(rows.question[part])) for part in (rows.label > 0, rows.label < 1))
    return min(right, wrong)


def _said(rows: Rows, by_rank: bool) -> tuple[Bin, ...]:
    """Return the prefixes by fifths of the scale, or, by rank, in fifths of equally many. A fifth can be empty."""
    edges = np.quantile(rows.reward, np.arange(1, 5) / 5) if by_rank else np.arange(1, 5) / 5
    place = np.searchsorted(edges, rows.reward, side="right")
    return tuple(_bin(rows.reward, place == fifth, rows) for fifth in range(5))


def _levels(found: Scored) -> pd.Series:
    """Return the level of each prefix: in ProcessBench its subset, in PRMBench the category of its solution."""
    keys = ["question", "solution"]
    return found.prefixes[keys].merge(found.solutions[[*keys, "level"]], on=keys, how="left")["level"]


def mean_of(values: Floats, rows: Rows, rule: IntervalRule, part: Bools | Ints | slice = slice(None)) -> Number:
    """Return the mean of values in [-1, 1] over some of the prefixes, with its interval over questions by a rule.

    Where a few questions have most of the prefixes of the file, each question counts the same.
    """
    question = rows.question[part]
    counts: Floats = np.bincount(question).astype(np.float64)
    asked = np.flatnonzero(counts)
    totals = np.bincount(question, weights=values)[asked]
    counts = counts[asked]
    even = rows.is_uneven
    ratio = Ratio(totals / counts if even else totals, np.ones(len(counts)) if even else counts, asked, rule)
    found = _number(ratio)
    return replace(found, low=max(found.low, -1.0), high=min(found.high, 1.0))


def over_folds(values: Floats, rows: Rows, rule: IntervalRule) -> Number:
    """Return the mean of values that are measured in folds, each with fits to the other folds.

    The interval is one of what these fits give on new questions, on average, and not of a fit to all questions. The
    plain one is right for many questions (Bayle et al., 2020, "Cross-validation confidence intervals for test error").
    For few, it is too narrow. So Student's t has the degrees of freedom of the questions that one fit is measured on.
    """
    found = mean_of(values, rows, rule)
    own = max(found.questions / OUTER, 1.0)
    wider = float(stdtrit(own, _UPPER) / stdtrit(max(found.questions - 1, 1), _UPPER))
    low, high = (found.value - wider * (found.value - found.low), found.value + wider * (found.high - found.value))
    return replace(found, low=max(low, -1.0), high=min(high, 1.0))


def _number(statistic: Statistic) -> Number:
    found = estimate(statistic, _BOOTSTRAP, compared=False)
    return Number(found.value, found.low, found.high, found.questions)


def folds_of(question: Ints, folds: int, seed: int = 0) -> NDArray[np.intp]:
    """Return the fold of each row. All rows of a question are in one fold."""
    ids, index = np.unique(question, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(ids)) % folds
    return order[index]


def chosen_in_folds(rows: Rows, names: Sequence[str] = CALIBRATORS) -> Iterator[tuple[Bools, str]]:
    """Yield the rows of each fold, and the calibrator that is best on the questions of the others; "" for none."""
    folds = folds_of(rows.question, OUTER)
    for fold in np.unique(folds):
        held = folds == fold
        yield held, _best(rows, ~held, names)


def _best(rows: Rows, chosen: Bools | slice, names: Sequence[str]) -> str:
    """Return the calibrator with the lowest Brier score on held-out questions; "" if the scores are better."""
    part = np.zeros(len(rows.reward), dtype=bool)
    part[chosen] = True
    folds = np.where(part, folds_of(rows.question, INNER, seed=1), -1)
    # Of an order alone, the rewards mean nothing.
    scores = {} if names == ORDER_ALONE else {"": float(((rows.reward - rows.label)[part] ** 2).mean())}
    for name in names:
        errors = 0.0
        for fold in range(INNER):
            held = folds == fold
            train = part & ~held
            if held.any() and train.any():
                errors += float(((predicted(fitted(name, rows, train), rows, held) - rows.label[held]) ** 2).sum())
        scores[name] = errors / part.sum()
    return min(scores, key=lambda name: scores[name])


def _by_part(parts: Mapping[str, Bools], rows: Rows) -> dict[str, Number]:
    """Return the signed error of each part that has prefixes."""
    errors = rows.reward - rows.label
    return {name: mean_of(errors[part], rows, signed_interval, part) for name, part in parts.items() if part.any()}


def _by_step(prefixes: pd.DataFrame, rows: Rows) -> dict[str, Number]:
    """Return the signed error of the bare question, of thirds of the steps, and of whole solutions."""
    step, steps = prefixes["step"].to_numpy(), prefixes["steps"].to_numpy()
    share = step / np.maximum(steps, 1)
    parts = {
        "bare question": step == 0,
        "first third": (step > 0) & (share <= 1 / 3),
        "second third": (share > 1 / 3) & (share <= 2 / 3),
        "last third": (share > 2 / 3) & (step < steps),
        "whole solution": (step == steps) & (step > 0),
    }
    return _by_part(parts, rows)


def _by_level(found: Scored, rows: Rows) -> dict[str, Number]:
    """Return the signed error of each level that the file names."""
    own = _levels(found).map(str, na_action="ignore")
    known = sorted(own.dropna().unique())
    parts = {name: (own == name).to_numpy() for name in known}
    return _by_part(parts, rows) if 1 < len(known) <= 10 else {}


def _bins(rewards: Floats, rows: Rows) -> tuple[Bin, ...]:
    """Return bins of about equally many prefixes. Equal rewards are in one bin."""
    edges = np.unique(np.quantile(rewards, np.arange(1, _BINS) / _BINS))
    place = np.searchsorted(edges, rewards, side="right")
    parts = (place == number for number in range(len(edges) + 1))
    return tuple(_bin(rewards, part, rows) for part in parts if part.any())


def _bin(rewards: Floats, part: Bools, rows: Rows) -> Bin:
    count = int(part.sum())
    if not count:
        return Bin(math.nan, Number(math.nan, math.nan, math.nan, 0), 0)
    return Bin(float(rewards[part].mean()), mean_of(rows.label[part], rows, bounded_interval, part), count)
