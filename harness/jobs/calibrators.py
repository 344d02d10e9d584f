"""Calibrators: the features that they read, their fits to success rates, and the rewards that they predict."""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from prmcal.errors import DataError
from prmcal.harness.jobs.context import PREFIX, Context, Output, successes_of
from prmcal.harness.jobs.hidden import hidden_states
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import CalibratedParameters, CalibratorParameters, FitParameters
from prmcal.harness.jobs.plugin_calls import checked_rewards, plugin_guard
from prmcal.registry.contracts.calibrator import Calibrator, FitSupport, ScoredPrefixes
from prmcal.registry.contracts.data import Prefix
from prmcal.steps import split_steps


def scored_prefixes(context: Context, shard: Shard[CalibratorParameters]) -> pd.DataFrame:
    """Return the rewards of the measured trajectories, sorted by prefix, without prefixes that are too long."""
    rewards = context.table(shard, "score", "rewards")
    measured = rewards["trajectory"] < shard.parameters.trajectories.stop
    return rewards[measured & ~rewards["over_long"]].sort_values(PREFIX, ignore_index=True)


def require_prefixes(rows: pd.DataFrame, use: str) -> None:
    """Raise a DataError if there are no prefixes. `use` is "calibration" or "measurement"."""
    if rows.empty:
        raise DataError(f"There are no prefixes for the {use}: every one was too long for the PRM.")


def without_terminal(rows: pd.DataFrame, use: str) -> pd.DataFrame:
    """Return the prefixes that do not contain their final answer yet, as in the authors' fits and measurements.

    Raises a DataError if there are none. The message names the option of the grid that keeps terminal prefixes: `use`
    is the part of the grid file with this option, "calibration" or "measurement".
    """
    found = rows[~rows["terminal"].to_numpy(bool)].reset_index(drop=True)
    if found.empty:
        raise DataError(
            f"All prefixes of the {use} are terminal: they contain their final answer. "
            f"Set '{use}.terminal' to true in the grid file."
        )
    return found


def features_of(
    context: Context, shard: Shard[CalibratorParameters], calibrator: Calibrator, rows: pd.DataFrame
) -> Any:
    """Return the features that `calibrator` reads of some scored prefixes, in the order of `rows`."""
    if calibrator.reads == "hidden":
        ((_, found),) = hidden_states(context, shard, rows)
        return found
    if calibrator.reads == "prm":
        return _with_texts(context, shard, rows)
    return rows[calibrator.reads].to_numpy(np.float64)


def _with_texts(context: Context, shard: Shard[CalibratorParameters], rows: pd.DataFrame) -> ScoredPrefixes:
    questions = {question.id: question.text for question in context.questions(shard.parameters.data)}
    trajectories = context.table(shard, "rollout", "trajectories").set_index(["question_id", "trajectory"])
    steps = {key: split_steps(text) for key, text in trajectories["text"].items()}
    prefixes = tuple(
        Prefix(questions[row.question_id], steps[row.question_id, row.trajectory][: row.step])
        for row in rows[PREFIX].itertuples(index=False)
    )
    prm = context.prm(shard.parameters.prm)
    return ScoredPrefixes(prm, prefixes, rows["logit"].to_numpy(np.float64))


def compute_fit(shard: Shard[FitParameters], context: Context) -> Output:
    """Return the fitted calibrator, which saves itself as safetensors and JSON."""
    calibrator = context.calibrator(shard.parameters.calibrator)
    name = shard.parameters.calibrator.name
    rows = calibration_rows(shard, context)
    with plugin_guard("calibrator", name, "fit"):
        calibrator.support = FitSupport(context.store.checkpoints(shard.ref), context.report)
        fit_to(calibrator, shard, context, rows)

    def save(folder: Path) -> None:
        with plugin_guard("calibrator", name, "save"):
            calibrator.save(folder)

    return Output(save=save)


def calibration_rows(shard: Shard[FitParameters], context: Context) -> pd.DataFrame:
    """Return the prefixes that a calibrator is fitted to, with their scores and success counts."""
    rows = scored_prefixes(context, shard).merge(
        successes_of(context, shard), on=PREFIX, validate="one_to_one"
    )
    require_prefixes(rows, "calibration")
    return rows if shard.parameters.terminal else without_terminal(rows, "calibration")


def fit_to(calibrator: Calibrator, shard: Shard[FitParameters], context: Context, rows: pd.DataFrame) -> None:
    """Fit a calibrator to some rows of :func:`calibration_rows`."""
    grouping: dict[str, Any] = {}
    if calibrator.grouped:
        grouping["questions"] = np.unique(rows["question_id"].to_numpy(str), return_inverse=True)[1]
    calibrator.fit(
        features_of(context, shard, calibrator, rows),
        rows["successes"].to_numpy(np.int64),
        rows["follow_ups"].to_numpy(np.int64),
        **grouping,
    )


def compute_calibrated(shard: Shard[CalibratedParameters], context: Context) -> Output:
    """Return one row for each prefix and level. Prefixes that are too long for the PRM have no row.

    The levels are those of the calibrator, and those that the grid asks for besides.

    The other trajectories are not needed: they have no success rates to compare with, and IAS reads the reward of the
    bare question, which all trajectories of a question share.
    """
    reference = shard.parameters.calibrator
    with plugin_guard("calibrator", reference.name, "load"):
        calibrator = context.fitted(shard, reference)
    rewards = scored_prefixes(context, shard)
    with plugin_guard("calibrator", reference.name, "predict"):
        found = predicted_rewards(calibrator, shard, context, rewards, shard.parameters.levels)
    return Output({"calibrated_rewards": found})


def predicted_rewards(
    calibrator: Calibrator,
    shard: Shard[CalibratorParameters],
    context: Context,
    rows: pd.DataFrame,
    asked: Collection[float] = (),
) -> pd.DataFrame:
    """Return the rewards of some scored prefixes by a fitted calibrator, with one row for each prefix and level.

    `asked` are levels beta besides those of the calibrator. Raises a PluginFailedError if the calibrator does not
    fulfil its contract.
    """
    levels = sorted({*calibrator.levels, *asked})
    predicted = np.empty((len(rows), len(levels)))
    parts: Iterable[tuple[Any, Any]] = (
        hidden_states(context, shard, rows, apart=True)
        if calibrator.reads == "hidden"
        else [(slice(None), features_of(context, shard, calibrator, rows))]
    )
    for part, features in parts:
        predicted[part] = checked_rewards(calibrator, features, levels)
    frames = [
        rows[PREFIX].assign(level=level, reward=predicted[:, column]) for column, level in enumerate(levels)
    ]
    return pd.concat(frames, ignore_index=True)
