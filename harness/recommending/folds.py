"""The calibration questions in folds, with rewards of calibrators that were fitted without each fold.

What was fitted to the calibration questions looks too good on them. So they are divided into parts (folds). For each
part, everything is fitted again to the other parts, in the way in which the run fits it to all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from prmcal.arrays import Ints
from prmcal.harness.jobs.calibrators import calibration_rows, fit_to, predicted_rewards, scored_prefixes
from prmcal.harness.jobs.context import PREFIX, Context
from prmcal.harness.jobs.job import Job
from prmcal.harness.jobs.parameters import FitParameters
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.harness.jobs.pools import GradedTrajectories, pool_of, tables_from
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.pool import Pool

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
