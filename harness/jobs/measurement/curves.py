"""Curves: accuracy against budget for every target C and level beta, the areas under them, and selective answering.

With a calibrator the points are those of best-of-n + IAS. Without one they are those of best-of-n with
n = 1, 2, 4, ..., N.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prmcal.db.statistics.bootstrap import Bootstrap, estimate
from prmcal.db.statistics.budgets import Curve
from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.measurement.pools import bare_rewards, levels_of
from prmcal.harness.jobs.measurement.results import bootstrap_of
from prmcal.harness.jobs.measurement.trajectories import QuestionAxis, graded_trajectories, last_scores
from prmcal.harness.jobs.parameters import CurvesParameters
from prmcal.harness.metrics.curves import (
    TARGETS,
    adaptive_curve,
    area_under,
    fixed_curve,
)
from prmcal.harness.metrics.selective import RiskCoverageArea, risk_at
from prmcal.registry.contracts.strategy import SWEPT_TARGETS
from prmcal.registry.strategies.best_of import best_of_each

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["compute"]

_THRESHOLDS = np.round(np.linspace(0, 1, 21), 2)


def compute(shard: Shard[CurvesParameters], context: Context) -> Output:
    """Return points overall and by difficulty, areas, and the risk against coverage of each level."""
    trajectories = graded_trajectories(shard, context)
    table = best_of_each(last_scores(shard, context), trajectories.correct, shard.parameters.samples)
    if "calibrated" not in shard.inputs:
        return Output(_fixed(trajectories, table, bootstrap_of(shard)))
    source = shard, "calibrated", "calibrated_rewards"
    at_levels = context.made_of(*source, bare_rewards, trajectories.question_ids)
    levels = context.made_of(*source, levels_of)
    return Output(_adaptive(trajectories, table, levels, at_levels, bootstrap_of(shard)))


def _fixed(axis: QuestionAxis, table: NDArray[np.float64], bootstrap: Bootstrap) -> dict[str, pd.DataFrame]:
    most = table.shape[1]
    counts = sorted({*(2**power for power in range(most.bit_length()) if 2**power <= most), most})
    areas = []
    if most > 1:
        every = fixed_curve(table, range(1, most + 1))
        areas = [_area("area", None, area_under(_ends(table), every, most, bootstrap), len(table))]
    return {
        "curve_points": _points(axis, fixed_curve(table, counts), [None], [None] * len(counts)),
        "curve_areas": _areas(areas),
        "sample_accuracies": _by_question(axis, table),
    }


def _adaptive(
    axis: QuestionAxis,
    table: NDArray[np.float64],
    levels: Sequence[float],
    rewards: NDArray[np.float64],
    bootstrap: Bootstrap,
) -> dict[str, pd.DataFrame]:
    import pandas as pd

    most = table.shape[1]
    areas = []
    for level, reward in zip(levels, rewards.T, strict=True):
        if most > 1:
            swept = adaptive_curve(table, reward, SWEPT_TARGETS)
            areas.append(_area("area", level, area_under(_ends(table), swept, most, bootstrap), len(table)))
        selective = estimate(RiskCoverageArea(reward, table[:, -1], axis.question_ids), bootstrap)
        ends = (selective.value, selective.low, selective.high)
        areas.append(_area("risk_coverage_area", level, ends, len(table)))
    risks = risk_at(_THRESHOLDS, rewards, table[:, -1])
    return {
        "curve_points": _points(axis, adaptive_curve(table, rewards.T, TARGETS), levels, TARGETS),
        "curve_areas": _areas(areas),
        "risk_points": pd.DataFrame(
            {
                "level": np.repeat(levels, len(_THRESHOLDS)),
                "threshold": np.tile(_THRESHOLDS, len(levels)),
                **{name: values.ravel() for name, values in risks.items()},
                "questions": np.int32(len(table)),
            }
        ),
    }


def _by_question(axis: QuestionAxis, table: NDArray[np.float64]) -> pd.DataFrame:
    """Return the accuracy of each question with each number of samples, from which that of any setting follows."""
    import pandas as pd

    questions, most = table.shape
    levels = pd.array(axis.question_levels).astype("Int32")
    return pd.DataFrame(
        {
            "question_id": np.repeat(axis.question_ids, most),
            "question_level": levels.repeat(most),
            "samples": np.tile(np.arange(1, most + 1, dtype=np.int32), questions),
            "accuracy": table.ravel(),
        }
    )


def _ends(table: NDArray[np.float64]) -> Curve:
    return fixed_curve(table, [1, table.shape[1]])


def _by_difficulty(axis: QuestionAxis) -> list[tuple[int | None, NDArray[np.bool_]]]:
    """Select all questions (None), then those of each difficulty."""
    known = [level for level in np.unique(axis.question_levels) if not np.isnan(level)]
    everything = np.ones(len(axis.question_ids), dtype=bool)
    return [(None, everything), *((int(level), axis.question_levels == level) for level in known)]


def _points(
    axis: QuestionAxis, curve: Curve, levels: Sequence[float | None], targets: Sequence[float | None]
) -> pd.DataFrame:
    """Return the points of all questions and of each difficulty, by level, difficulty and target.

    The curve has the points of each target at the first level, then those at the next level.
    """
    import pandas as pd

    difficulties, chosen = zip(*_by_difficulty(axis), strict=True)
    parts = [curve.part(questions) for questions in chosen]
    samples, accuracy = map(np.stack, zip(*(part.intervals() for part in parts), strict=True))
    shape = len(parts), len(levels), len(targets)

    def ordered(values: Any, dtype: type = np.float64) -> NDArray[Any]:
        """Order values by level, difficulty and target. They are given by difficulty, level and target."""
        return np.broadcast_to(np.asarray(values, dtype), shape).swapaxes(0, 1).ravel()

    def of_points(values: ArrayLike) -> NDArray[np.float64]:
        return ordered(np.reshape(values, shape))

    return pd.DataFrame(
        {
            "level": pd.array(ordered([[each] for each in levels]), dtype="Float64"),
            "target": pd.array(ordered(targets), dtype="Float64"),
            "question_level": pd.array(ordered([[[each]] for each in difficulties])).astype("Int32"),
            "point": ordered(np.arange(len(targets)), np.int32),
            "samples": of_points([part.cost for part in parts]),
            "samples_low": of_points(samples[..., 0]),
            "samples_high": of_points(samples[..., 1]),
            "accuracy": of_points([part.accuracy for part in parts]),
            "accuracy_low": of_points(accuracy[..., 0]),
            "accuracy_high": of_points(accuracy[..., 1]),
            "questions": ordered([[[part.questions]] for part in parts], np.int32),
        }
    )


def _area(
    name: str, level: float | None, found: tuple[float, float, float], questions: int
) -> dict[str, Any]:
    value, low, high = found
    return {
        "name": name,
        "level": level,
        "value": value,
        "low": low,
        "high": high,
        "questions": questions,
    }


def _areas(rows: list[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    dtypes = {
        "name": "str",
        **dict.fromkeys(("level", "value", "low", "high"), "Float64"),
        "questions": "int32",
    }
    columns = {name: pd.array([row[name] for row in rows], dtype=dtype) for name, dtype in dtypes.items()}
    return pd.DataFrame(columns)
