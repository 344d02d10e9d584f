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
from prmcal.db.statistics.bootstrap import Bootstrap, Ratio, estimate
from prmcal.db.statistics.intervals import (
    Estimate,
    IntervalRule,
    bounded_interval,
    error_interval,
    gain_interval,
    signed_interval,
)
from prmcal.harness.audit.detection import Detection, PrmScore, detection, prm_scores
from prmcal.harness.audit.scored import ScoredSolutions
from prmcal.log_odds import log_odds
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.metric import PrefixRows
from prmcal.registry.metrics.scores import AUROCWithin
from prmcal.registry.plugins import calibrators

CALIBRATORS = ("temperature", "platt", "beta", "isotonic", "histogram")
"""The calibrators that read only the score, and are fitted in seconds to a million prefixes."""
ORDER_ALONE = ("isotonic", "histogram")
"""The calibrators that read only the order of the scores."""

OUTER, INNER = 5, 4
"""Numbers of folds over questions: for measuring, and within the complement for choosing."""

_UPPER = 0.975
_BINS = 10
_GROUPS = 5_000
"""A fit reads at most this many rows, so it takes at most a second for a million prefixes."""
LEAST_MIXED = 10
"""Questions with right and wrong solutions without which no AUC is shown."""
LEAST_INFORMATIVE = 10
"""Informative questions for a verdict on calibrators. See ``python -m benchmarks.simulations.audit_coverage``."""
_UNEVEN = 0.5
"""If the effective share of the questions is below this, each question counts the same."""
_BOOTSTRAP = Bootstrap(1000, 0)


@dataclass(frozen=True)
class Number(Estimate):
    """A value with its 95% interval over questions, and their number."""

    questions: int


@dataclass(frozen=True)
class Bin:
    """Prefixes with similar scores: a point of the reliability diagram."""

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
    """The mean errors of parts of the prefixes."""
    order: Number | None
    """AUC within questions with right and wrong solutions (or prefixes, for labels of steps); None without any."""
    said: tuple[Bin, ...]
    """The prefixes whose scores are near .1, .3, .5, .7 and .9; of ranks, fifths of the prefixes."""
    informative: int
    """The number of questions with something right, or with something wrong, whichever is smaller."""
    even: bool
    """True if each question counts the same, because a few have most of the prefixes."""
    brier: Number
    gain: Number
    """Mean Brier reduction, on new questions, by calibrators that are chosen and fitted on the other folds."""
    chosen: str
    """The calibrator that is chosen on all questions; "" if none is better than the original scores."""
    gains: dict[str, Number]
    """The Brier reduction by each calibrator, without a choice."""
    reliability: dict[str, tuple[Bin, ...]]
    """Bins of equally many prefixes: of the scores "as they are", and "calibrated" on questions that the fit and the
    choice have not seen."""
    detection: tuple[Detection, ...]
    """The success at finding the first wrong step, if people have marked it; empty otherwise."""
    prm_scores: tuple[PrmScore, ...]
    """PRMScore, if people have marked each step; empty otherwise."""

    @property
    def is_repaired(self) -> bool:
        """Whether a calibrator clearly helps: the Brier reduction is above 0, and enough questions are informative."""
        return bool(self.chosen) and self.gain.low > 0 and self.informative >= LEAST_INFORMATIVE


class Rows:
    """Prefixes as arrays, for calibrators and metrics."""

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
        """Return the features of a calibrator."""
        return self.logit if calibrator.reads == "logit" else self.reward


def draws_of(labels: Floats) -> int:
    """Return the smallest n for which all labels are k of n; 1000 if there is none below."""
    for n in range(1, 129):
        if np.abs(labels * n - np.rint(labels * n)).max(initial=0.0) < 1e-6 * n:
            return n
    return 1000


def fit_calibrator(name: str, rows: Rows, subset: Bools | slice = slice(None)) -> Calibrator:
    """Return a calibrator that is fitted to some of the prefixes. Of many, those with like scores are joined."""
    calibrator: Calibrator = calibrators.create(name)
    values, k, n = rows.features(calibrator)[subset], rows.k[subset], rows.n[subset]
    if len(values) > _GROUPS:
        order, starts = values.argsort(), np.arange(_GROUPS) * len(values) // _GROUPS
        sizes = np.diff(starts, append=len(values))
        values = np.add.reduceat(values[order], starts) / sizes
        k, n = np.add.reduceat(k[order], starts), np.add.reduceat(n[order], starts)
    return calibrator.fit_features(values, k, n)


def calibrated_rewards(calibrator: Calibrator, rows: Rows, subset: Bools | slice = slice(None)) -> Floats:
    """Return the calibrated rewards of some of the prefixes."""
    return calibrator.predict_at(rows.features(calibrator)[subset], [0.5])[:, 0]


def held_out_errors(name: str, rows: Rows, train: Bools, held_out: Bools) -> Floats:
    """Return the squared errors of the held-out rows after a fit of a calibrator to the training rows."""
    errors = calibrated_rewards(fit_calibrator(name, rows, train), rows, held_out) - rows.label[held_out]
    return np.asarray(errors**2)


def error_in_folds(name: str, rows: Rows, subset: Bools) -> float:
    """Return the mean squared error of a calibrator on some rows, by folds over their questions."""
    folds = [(subset & ~held_out, subset & held_out) for held_out in held_out_folds(rows.question, INNER, seed=1)]
    folds = [(train, held_out) for train, held_out in folds if train.any() and held_out.any()]
    errors = sum(float(held_out_errors(name, rows, *fold).sum()) for fold in folds)
    return errors / int(subset.sum())


def measure(scored: ScoredSolutions) -> Measured:
    """Measure scored solutions."""
    rows = Rows(scored.prefixes)
    squared = (rows.reward - rows.label) ** 2
    rewards_by = {name: np.empty(len(squared)) for name in CALIBRATORS}
    selected = np.empty(len(squared))
    names = ORDER_ALONE if scored.scale.name == "rank" else CALIBRATORS
    for held_out, best in chosen_in_folds(rows, names):
        for name in names:
            rewards_by[name][held_out] = calibrated_rewards(fit_calibrator(name, rows, ~held_out), rows, held_out)
        selected[held_out] = rewards_by[best][held_out] if best else rows.reward[held_out]
    chosen = _best(rows, slice(None), names)
    gain = over_folds(squared - (selected - rows.label) ** 2, rows, gain_interval)
    detection_inputs = (scored.prefixes, selected if chosen else None, _levels(scored), _BOOTSTRAP)
    return Measured(
        signed_error=mean_of(rows.reward - rows.label, rows, signed_interval),
        by_step=_by_step(scored.prefixes, rows),
        by_level=_by_level(scored, rows),
        order=_order(scored),
        said=_by_fifth(rows, scored.scale.name == "rank"),
        informative=min(len(np.unique(rows.question[subset])) for subset in (rows.label > 0, rows.label < 1)),
        even=rows.is_uneven,
        brier=mean_of(squared, rows, error_interval),
        gain=gain,
        chosen=chosen,
        gains={name: over_folds(squared - (rewards_by[name] - rows.label) ** 2, rows, gain_interval) for name in names},
        reliability={"as they are": _bins(rows.reward, rows)}
        | ({"calibrated": _bins(selected, rows)} if chosen else {}),
        detection=detection(*detection_inputs) if scored.target == "first error" else (),
        prm_scores=prm_scores(*detection_inputs) if scored.target == "step" else (),
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


def _order(scored: ScoredSolutions) -> Number | None:
    """Return the AUC within questions: of whole solutions by their outcome, or else of prefixes by their labels."""
    if scored.target == "outcome":
        return area_within(scored.solutions)
    steps = scored.prefixes[scored.prefixes["step"] > 0]
    return area_within(steps.drop_duplicates(["question", "step", "score", "label"]))


def _by_fifth(rows: Rows, by_rank: bool) -> tuple[Bin, ...]:
    """Return the prefixes by fifths of the scale, or for ranks by fifths of their number. A fifth can be empty."""
    edges = np.quantile(rows.reward, np.arange(1, 5) / 5) if by_rank else np.arange(1, 5) / 5
    place = np.searchsorted(edges, rows.reward, side="right")
    return tuple(_bin(rows.reward, place == fifth, rows) for fifth in range(5))


def _levels(scored: ScoredSolutions) -> pd.Series:
    """Return the level of each prefix: in ProcessBench its subset, in PRMBench the category of its solution."""
    keys = ["question", "solution"]
    return scored.prefixes[keys].merge(scored.solutions[[*keys, "level"]], on=keys, how="left")["level"]


def mean_of(values: Floats, rows: Rows, rule: IntervalRule, subset: Bools | Ints | slice = slice(None)) -> Number:
    """Return the mean of values in [-1, 1] over some of the prefixes, with its interval over questions by a rule.

    If a few questions have most of the prefixes of the file, each question counts the same.
    """
    question = rows.question[subset]
    counts: Floats = np.bincount(question).astype(np.float64)
    question_ids = np.flatnonzero(counts)
    totals, counts = np.bincount(question, weights=values)[question_ids], counts[question_ids]
    ratio = Ratio(totals, counts, question_ids, rule)
    if rows.is_uneven:
        ratio = Ratio(totals / counts, np.ones(len(counts)), question_ids, rule)
    mean = estimate(ratio, _BOOTSTRAP, compared=False)
    return Number(mean.value, max(mean.low, -1.0), min(mean.high, 1.0), mean.questions)


def over_folds(values: Floats, rows: Rows, rule: IntervalRule) -> Number:
    """Return the mean of values that are measured in folds, each with fits to the other folds.

    The interval is for the average of these fits on new questions, not for a fit to all questions. The plain interval
    is right for many questions (Bayle et al., 2020, "Cross-validation confidence intervals for test error"). For few
    questions, it is too narrow. So Student's t has the degrees of freedom of the questions of one fold.
    """
    mean = mean_of(values, rows, rule)
    degrees = max(mean.questions / OUTER, 1.0)
    wider = float(stdtrit(degrees, _UPPER) / stdtrit(max(mean.questions - 1, 1), _UPPER))
    low, high = (mean.value - wider * (mean.value - mean.low), mean.value + wider * (mean.high - mean.value))
    return replace(mean, low=max(low, -1.0), high=min(high, 1.0))


def folds_of(question: Ints, folds: int, seed: int = 0) -> NDArray[np.intp]:
    """Return the fold of each row. All rows of a question are in one fold."""
    ids, index = np.unique(question, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(ids)) % folds
    return order[index]


def held_out_folds(question: Ints, folds: int, seed: int = 0) -> Iterator[Bools]:
    """Yield which rows each fold holds out."""
    fold_of_row = folds_of(question, folds, seed)
    yield from (fold_of_row == fold for fold in np.unique(fold_of_row))


def chosen_in_folds(rows: Rows, names: Sequence[str] = CALIBRATORS) -> Iterator[tuple[Bools, str]]:
    """Yield the rows of each fold, and the calibrator that is best on the other folds; "" for none."""
    yield from ((held_out, _best(rows, ~held_out, names)) for held_out in held_out_folds(rows.question, OUTER))


def _best(rows: Rows, subset: Bools | slice, names: Sequence[str]) -> str:
    """Return the calibrator with the lowest Brier score on held-out questions; "" if the scores are better."""
    in_subset = np.zeros(len(rows.reward), dtype=bool)
    in_subset[subset] = True
    # Of an order alone, the rewards mean nothing.
    scores = {} if names == ORDER_ALONE else {"": float(((rows.reward - rows.label)[in_subset] ** 2).mean())}
    scores |= {name: error_in_folds(name, rows, in_subset) for name in names}
    return min(scores, key=lambda name: scores[name])


def _by_part(subsets: Mapping[str, Bools], rows: Rows) -> dict[str, Number]:
    """Return the signed error of each part that has prefixes."""
    errors = rows.reward - rows.label
    some = {name: subset for name, subset in subsets.items() if subset.any()}
    return {name: mean_of(errors[subset], rows, signed_interval, subset) for name, subset in some.items()}


def _by_step(prefixes: pd.DataFrame, rows: Rows) -> dict[str, Number]:
    """Return the signed error of the bare question, of thirds of the steps, and of whole solutions; {} for only one."""
    step, steps = prefixes["step"].to_numpy(), prefixes["steps"].to_numpy()
    share = step / np.maximum(steps, 1)
    subsets = {
        "bare question": step == 0,
        "first third": (step > 0) & (share <= 1 / 3),
        "second third": (share > 1 / 3) & (share <= 2 / 3),
        "last third": (share > 2 / 3) & (step < steps),
        "whole solution": (step == steps) & (step > 0),
    }
    parts = _by_part(subsets, rows)
    return parts if len(parts) > 1 else {}


def _by_level(scored: ScoredSolutions, rows: Rows) -> dict[str, Number]:
    """Return the signed error of each level that the file names."""
    levels = _levels(scored).map(str, na_action="ignore")
    names = sorted(levels.dropna().unique())
    subsets = {name: (levels == name).to_numpy() for name in names}
    return _by_part(subsets, rows) if 1 < len(names) <= 10 else {}


def _bins(rewards: Floats, rows: Rows) -> tuple[Bin, ...]:
    """Return bins of about equally many prefixes. Equal rewards are in one bin."""
    edges = np.unique(np.quantile(rewards, np.arange(1, _BINS) / _BINS))
    place = np.searchsorted(edges, rewards, side="right")
    subsets = (place == number for number in range(len(edges) + 1))
    return tuple(_bin(rewards, subset, rows) for subset in subsets if subset.any())


def _bin(rewards: Floats, subset: Bools, rows: Rows) -> Bin:
    count = int(subset.sum())
    if not count:
        return Bin(math.nan, Number(math.nan, math.nan, math.nan, 0), 0)
    return Bin(float(rewards[subset].mean()), mean_of(rows.label[subset], rows, bounded_interval, subset), count)
