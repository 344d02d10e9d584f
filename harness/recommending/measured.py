"""The strategies that can be recommended, and what each choice reaches on calibration and on test questions.

What was fitted to the calibration questions looks too good on them. So they are divided into parts (folds). For each
part, everything is fitted again to the other parts, in the way in which the run fits it to all of them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd

from prmcal.arrays import Bools, Floats, Ints
from prmcal.db.overview.types import Quantity
from prmcal.db.statistics.budgets import against_fixed
from prmcal.db.statistics.intervals import IntervalRule, bounded_interval, known_interval, skewed_interval
from prmcal.errors import InvalidArgumentsError, PrmcalError
from prmcal.harness.jobs.calibrators import calibration_rows, fit_to, predicted_rewards, scored_prefixes
from prmcal.harness.jobs.context import PREFIX, Context
from prmcal.harness.jobs.job import Job
from prmcal.harness.jobs.parameters import FitParameters, PluginReference
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.harness.jobs.pools import GradedTrajectories, pool_of, scores_of_whole, tables_from
from prmcal.harness.recommending.types import Choice, Results
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.pool import PER_CALIBRATOR, Pool
from prmcal.registry.contracts.results import check_answered
from prmcal.registry.contracts.strategy import SWEPT_TARGETS, Answered, PoolStrategy, Setting, Strategy
from prmcal.registry.plugins import strategies
from prmcal.registry.strategies.best_of import FixedBudget, best_of_each, curve_counts
from prmcal.registry.strategies.safe_choice import SafeChoice

FOLDS = 5  # the number of parts, unless there are fewer questions


def folds_of(questions: int) -> Ints:
    """Return the fold of each question, of shape (questions,): 0 to 4, in a random order that never changes.

    scikit-learn's KFold would draw others, and recommend something else for the same run.
    """
    order = np.random.default_rng(0).permutation(questions)
    return np.asarray(order % min(FOLDS, questions), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class FoldRewards:
    """Calibrated rewards of the calibration questions, as tables with one row for each prefix and level."""

    without: tuple[pd.DataFrame, ...]
    """For each fold, the rewards of a calibrator that was fitted to the other folds, of all questions."""
    whole: pd.DataFrame
    """The rewards of the run's own calibrator, which was fitted to all questions."""


def rewards_by_fold(
    context: Context,
    fit: Job[FitParameters],
    scores: pd.DataFrame,
    fold_of: Mapping[str, int],
    levels: Sequence[float],
) -> FoldRewards:
    """Fit a calibrator again without each fold, and predict rewards.

    `fit` is the finished job that fitted the calibrator in the run. `scores` has all trajectories, also those to
    which the calibrator was not fitted. `fold_of` has the fold of each question by its id. `levels` are those that the
    run asks for besides the calibrator's own.
    """
    shard = fit.shards[0]
    name = shard.parameters.calibrator.name
    with plugin_guard("calibrator", name, "load"):
        own = context.calibrator(shard.parameters.calibrator)
        own.load(context.store.folder(shard.ref))
    rows = scored_prefixes(context, shard)
    if own.reads in ("reward", "logit"):  # Hidden states are known of the measured trajectories only.
        rows = scores[~scores["over_long"]].sort_values(PREFIX, ignore_index=True)
    known = calibration_rows(shard, context)
    fold_of_row = known["question_id"].map(fold_of).to_numpy()

    def predicted(calibrator: Calibrator) -> pd.DataFrame:
        with plugin_guard("calibrator", name, "predict"):
            return predicted_rewards(calibrator, shard, context, rows, levels)

    without = []
    for fold in sorted(set(fold_of.values())):
        again = context.calibrator(shard.parameters.calibrator)
        with plugin_guard("calibrator", name, "fit"):
            fit_to(again, shard, context, known[fold_of_row != fold].reset_index(drop=True))
        without.append(predicted(again))
    return FoldRewards(tuple(without), predicted(own))


def pool_with(
    trajectories: GradedTrajectories,
    scores: pd.DataFrame | None,
    rewards: pd.DataFrame | None,
    reads: Sequence[str],
    level: float | None,
) -> Pool:
    """Return trajectories with what a strategy reads of the scores of a PRM and of the rewards of a calibrator."""

    def table(role: str, name: str) -> pd.DataFrame:
        found = scores if role == "score" else rewards
        assert found is not None, f"a strategy without a PRM reads {role}"
        return found

    return pool_of(trajectories, tables_from(table), reads, level)


@dataclass(frozen=True, eq=False)
class KnownPools:
    """The pools of the calibration questions for one LLM, one PRM and one calibrator, if any."""

    trajectories: GradedTrajectories
    """All trajectories of the calibration questions, on which strategies are judged."""
    own: GradedTrajectories
    """Those of the run, by which strategies are tuned. They are the first ones of `trajectories`."""
    folds: Ints
    """Of shape (questions,), int64."""
    scores: pd.DataFrame | None = None
    """The PRM's scores of all trajectories."""
    rewards: FoldRewards | None = None

    def judged(self, reads: Sequence[str], level: float | None) -> Pool:
        """Return all questions. The rewards of each were predicted without its own fold."""
        rewards = None
        if self.rewards is not None:
            fold_of = dict(zip(self.trajectories.question_ids, self.folds, strict=True))
            parts = [
                each[each["question_id"].map(fold_of) == fold]
                for fold, each in enumerate(self.rewards.without)
            ]
            rewards = pd.concat(parts, ignore_index=True)
        return pool_with(self.trajectories, self.scores, rewards, reads, level)

    def tuning(self, reads: Sequence[str], level: float | None, fold: int | None = None) -> Pool:
        """Return the questions by which a strategy is tuned that is judged on a fold; all questions for None.

        As in a run, their rewards come from a calibrator that was fitted to the same questions.
        """
        rewards = self.rewards and (self.rewards.whole if fold is None else self.rewards.without[fold])
        pool = pool_with(self.own, self.scores, rewards, reads, level)
        return pool if fold is None else pool.drawn(self.folds != fold, slice(None))


SAFE = "safe choice"
"""The registered name of the strategy that is recommended by default."""
_REWARDS = PER_CALIBRATOR.union({"rewards"})
FIXED = "best-of-n"
"""The registered name of the plain strategy that all others are compared with."""


@dataclass(frozen=True)
class Candidate:
    """A strategy that is compared."""

    reference: PluginReference
    built: PoolStrategy
    of_grid: bool
    """True if it is in the grid. It is then compared where the grid runs it."""
    wanted: bool = True
    """True if it may be recommended."""

    @property
    def name(self) -> str:
        """Its name in the grid, or its registered name."""
        return self.reference.name

    def build(self) -> PoolStrategy:
        """Return a new strategy, which is not tuned."""
        built: Strategy = self.reference.build(strategies)
        assert isinstance(built, PoolStrategy)
        return built


def candidates(grid: Sequence[PluginReference], wanted: Sequence[str]) -> list[Candidate]:
    """Return the strategies that are compared: best-of-n first, then those of the grid, then all others.

    They are the strategies of the league, which always answer and whose cost does not depend on a second LLM. Searches,
    which generate step by step, have no results on the calibration questions. A strategy that reads calibrated rewards
    and is not in the grid is there only if it is wanted: with every calibrator it would be many choices, and the best
    of many looks better than it is.

    `wanted` has the names to keep besides best-of-n; if it is empty, all are kept. Raise PrmcalError if one does not
    exist or cannot be recommended.
    """
    of_grid = {each.name: each for each in grid}
    known = of_grid | {
        name: PluginReference(name, name, {}) for name in strategies.names() if name not in of_grid
    }
    for name in wanted:
        if name not in known:
            strategies.get(name)  # It raises, and names similar ones.
    found = []
    for name, reference in known.items():
        asked = name in wanted
        if wanted and not asked and reference.plugin != FIXED:
            continue
        try:
            built: Strategy = reference.build(strategies)
        except InvalidArgumentsError:  # It needs arguments, which only a grid can give.
            if asked:
                raise
            continue
        if not isinstance(built, PoolStrategy) or not _is_usable(built, reference):
            if asked:
                raise PrmcalError(
                    f"--strategy: '{name}' cannot be recommended. It must draw whole samples of one LLM for one "
                    "question, always answer, and not need the truth."
                )
        elif asked or name in of_grid or not _REWARDS.intersection(built.reads):
            found.append(Candidate(reference, built, name in of_grid, asked or not wanted))
    return sorted(found, key=lambda each: each.reference.plugin != FIXED)


def _is_usable(built: PoolStrategy, reference: PluginReference) -> bool:
    known = not built.reference and "success" not in built.reads
    # Marginal gains divides the samples of a whole set of questions, so it has no answer for one question alone.
    return built.in_league and known and reference.plugin != "marginal gains"


def settings_of(strategy: PoolStrategy, most: int, samples: int | None) -> list[Setting]:
    """Return the settings in which a strategy is compared, with at most `most` samples of a question.

    A wanted number of `samples` is one of the settings of a strategy without a target. The samples of ``safe choice``
    are those of a question on average, out of at most `most`.
    """
    if strategy.targeted:
        return [Setting(most, target) for target in SWEPT_TARGETS] if most > 1 else []
    if isinstance(strategy, FixedBudget):
        counts = set(map(int, curve_counts(most)))
    else:
        counts = {2**power for power in range(most.bit_length())} | {most}
    if samples is not None and samples <= most:
        counts.add(samples)
    return [Setting(count) for count in sorted(counts)]


@dataclass(frozen=True, eq=False)
class Measured:
    """A choice with its results for each calibration question."""

    choice: Choice
    candidate: Candidate
    accuracy: Floats
    samples: Floats
    """Of shape (questions,), float64."""
    tokens: Floats | None
    """The expected generated tokens; None if they are not known. Of shape (questions,), float64."""

    @property
    def accuracy_error(self) -> float:
        """The standard error of the mean accuracy; NaN for one question."""
        questions = len(self.accuracy)
        return float(self.accuracy.std(ddof=1) / np.sqrt(questions)) if questions > 1 else float("nan")

    def cost(self, kind: str) -> float:
        """Return the mean cost of a question in ``samples`` or ``tokens``."""
        found = self.tokens if kind == "tokens" else self.samples
        return float("nan") if found is None else float(found.mean())


def measured(
    candidate: Candidate,
    place: Choice,
    pools: KnownPools,
    most: int,
    samples: int | None,
    tokens: Floats | None,
) -> Iterator[Measured]:
    """Yield what a strategy reaches in all of its settings; see :func:`settings_of`.

    What it is tuned with never contains the question that it is judged on. `place` has the LLM, the PRM, the calibrator
    and the level beta. `tokens`, of shape (questions,), are the mean generated tokens of a trajectory.
    """
    settings = settings_of(candidate.built, most, samples)
    if not settings:
        return
    reads = candidate.built.reads
    judged = pools.judged(reads, place.level)
    parts: list[tuple[Bools, list[Answered]]] = []
    with plugin_guard("strategy", candidate.name, "answer"):
        if not candidate.built.tuned:
            parts = [(np.ones(judged.questions, bool), _answers(candidate.build(), judged, settings))]
        else:
            for fold in range(int(pools.folds.max()) + 1):
                own = pools.folds == fold
                tuning = pools.tuning(reads, place.level, fold)
                parts.append((own, _tuned(candidate, tuning, judged.drawn(own, slice(None)), settings)))
    for number, setting in enumerate(settings):
        accuracy, used = np.empty(judged.questions), np.empty(judged.questions)
        for own, answered in parts:
            accuracy[own] = np.minimum(answered[number].accuracy, 1.0)
            used[own] = answered[number].samples
        fixed = all(answered[number].fixed for _, answered in parts)
        # C with 1 - C rounded to about three digits, so that it can be typed.
        short = setting.target and round(setting.target, 2 - math.floor(math.log10(1 - setting.target)))
        choice = replace(place, strategy=candidate.name, samples=setting.samples, target=short, fixed=fixed)
        if isinstance(candidate.built, SafeChoice):
            choice = replace(choice, samples=most, mean_samples=setting.samples)
        yield Measured(choice, candidate, accuracy, used, None if tokens is None else used * tokens)


def quantity(values: Floats, rule: IntervalRule) -> Quantity:
    """Return the mean of one value for each question with its interval by a rule."""
    mean = float(values.mean())
    low, high = rule(values)
    return Quantity(mean, min(float(low), mean), max(float(high), mean))


def results_of(
    found: Measured, fixed: bool, dataset: str = "", used: str = "", **differences: Quantity | None
) -> Results:
    """Return the means of a choice with their intervals. `fixed` says that each question has the same samples."""
    rule = known_interval if fixed else partial(bounded_interval, upper=float(found.choice.samples))
    return Results(
        dataset=dataset,
        questions=len(found.accuracy),
        accuracy=quantity(found.accuracy, bounded_interval),
        samples=quantity(found.samples, rule),
        tokens=None if found.tokens is None else quantity(found.tokens, skewed_interval),
        accuracy_error=found.accuracy_error,
        rule=used,
        **differences,
    )


def _tuned(candidate: Candidate, known: Pool, judged: Pool, settings: Sequence[Setting]) -> list[Answered]:
    """Return the answers to some questions after tuning on others: once for all targets, or for each setting."""
    found = []
    if isinstance(candidate.built, SafeChoice):
        safe, most = candidate.build(), Setting(settings[-1].samples)
        assert isinstance(safe, SafeChoice)
        safe.tune(known, most)
        for each in settings:
            safe.mean_samples = each.samples
            found += _answers(safe, judged, [most])
        return found
    for part in [settings] if candidate.built.targeted else [[each] for each in settings]:
        strategy = candidate.build()
        strategy.tune(known, Setting(part[0].samples))
        found += _answers(strategy, judged, part)
    return found


def _answers(strategy: PoolStrategy, pool: Pool, settings: Sequence[Setting]) -> list[Answered]:
    # All points of a curve at once take hardly longer than one.
    found: Sequence[Answered] = ()
    if strategy.targeted:
        found = strategy.sweep(pool, Setting(settings[0].samples))
    elif isinstance(strategy, FixedBudget) and len(settings) > 1:
        swept = {int(each.samples[0]): each for each in strategy.sweep(pool, settings[-1])}
        found = [swept.get(each.samples) or strategy.answer(pool, each) for each in settings]
    if len(found) != len(settings):
        found = [strategy.answer(pool, setting) for setting in settings]
    for answered, setting in zip(found, settings, strict=True):
        check_answered(answered, strategy, pool.questions, setting)
    return list(found)


def tested(
    found: Measured,
    dataset: str,
    trajectories: GradedTrajectories,
    scores: pd.DataFrame,
    rewards: pd.DataFrame | None,
    known: KnownPools,
    recommended: Floats | None,
) -> tuple[Results, Floats]:
    """Run a choice on test questions. A strategy that is tuned is tuned by the calibration questions of the run.

    `scores` are those of the PRM of the choice, or of that which best-of-n is compared with. `rewards` are there if the
    choice reads any. `recommended`, of shape (questions,), has the probabilities of a right answer by the recommended
    choice; None if it is this one. They are returned for this choice, with its results.
    """
    choice, candidate = found.choice, found.candidate
    strategy, setting = candidate.build(), Setting(choice.samples, choice.target)
    if isinstance(strategy, SafeChoice):
        strategy.mean_samples = choice.mean_samples
    with plugin_guard("strategy", candidate.name, "answer"):
        if strategy.tuned:
            strategy.tune(known.tuning(strategy.reads, choice.level), setting)
        judged = pool_with(trajectories, scores, rewards, strategy.reads, choice.level)
        answered = strategy.answer(judged, setting)
        check_answered(answered, strategy, judged.questions, setting)
    accuracy, samples = np.minimum(answered.accuracy, 1.0), answered.samples
    most = trajectories.correct.shape[1]
    tokens = samples * trajectories.tokens.mean(axis=1)
    differences = {"to_pass_at_1": accuracy - trajectories.correct.mean(axis=1)}
    if candidate.reference.plugin != FIXED:
        fixed = best_of_each(scores_of_whole(scores, most), trajectories.correct, most)
        differences["to_fixed"] = against_fixed(accuracy[:, None], samples[:, None], fixed)[:, 0]
    if recommended is not None:
        differences["to_recommended"] = accuracy - recommended
    here = replace(found, accuracy=accuracy, samples=samples, tokens=tokens if tokens.any() else None)
    used = strategy.chosen(setting).text if isinstance(strategy, SafeChoice) else ""
    with_ends = {name: quantity(values, skewed_interval) for name, values in differences.items()}
    return results_of(here, answered.fixed, dataset, used, **with_ends), accuracy
