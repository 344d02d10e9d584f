"""The features that calibrators read: rewards, logits, hidden states, or texts with the PRM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prmcal.errors import DataError
from prmcal.harness.jobs.context import Context
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import CalibratorParameters
from prmcal.registry.contracts.calibrator import Calibrator, ScoredPrefixes
from prmcal.registry.contracts.data import HiddenStates, Prefix
from prmcal.steps import split_steps

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PREFIX", "features_of", "require_prefixes", "scored_prefixes", "without_terminal"]

PREFIX = ["question_id", "trajectory", "step"]
"""The columns that identify a prefix of a rollout."""


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

    Raises
    ------
    DataError
        If there are none. The message names the option of the grid that keeps terminal prefixes: `use` is the part of
        the grid file with this option, "calibration" or "measurement".
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
        return _hidden_states(context, shard, rows)
    if calibrator.reads == "prm":
        return _with_texts(context, shard, rows)
    return rows[calibrator.reads].to_numpy(np.float64)


def _hidden_states(context: Context, shard: Shard[CalibratorParameters], rows: pd.DataFrame) -> HiddenStates:
    import pandas as pd
    from safetensors.numpy import load_file

    parts, tables = [], []
    for ref in shard.inputs["hidden"]:
        table = context.store.read(ref.kind, ref.key, "hidden_prefixes").to_pandas()
        arrays = load_file(context.store.folder(ref.kind, ref.key) / "states.safetensors")
        logit = table["logit"].to_numpy(np.float64)
        parts.append(
            HiddenStates(
                arrays["states"].astype(np.float32), arrays["parents"], table["leaf"].to_numpy(), logit
            )
        )
        tables.append(table[PREFIX])
    held = pd.concat(tables, ignore_index=True).reset_index(names="row")
    order = rows[PREFIX].merge(held, on=PREFIX, how="left", validate="one_to_one")["row"]
    return HiddenStates.concatenate(parts)[order.to_numpy(np.int64)]


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
