"""Curves: accuracy against budget for every target C and level beta, their areas, and selective answering.

With a calibrator the points are those of best-of-n + IAS, without one those of best-of-n with n = 1, 2, 4, ..., N.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prmcal.db.statistics.bootstrap import Bootstrap, Estimate, estimate
from prmcal.db.statistics.spending import Curve
from prmcal.harness.jobs.context import Context, Output
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.measurement.pool import QuestionPool, bootstrap_of, last_scores, pool_of
from prmcal.harness.jobs.measurement.strategy import bare_rewards
from prmcal.harness.metrics.curves import (
    DENSE_TARGETS,
    TARGETS,
    accuracy_table,
    adaptive_curve,
    area_under,
    fixed_curve,
)
from prmcal.harness.metrics.selective import Answering, RiskCoverageArea

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["compute"]

_THRESHOLDS = np.round(np.linspace(0, 1, 21), 2)


def compute(shard: Shard, context: Context) -> Output:
    """Points in all and by difficulty, areas, and risk against coverage of each level."""
    pool = pool_of(shard, context)
    most = shard.parameters["samples"]
    table = accuracy_table(last_scores(shard, context), pool.correct, most)
    if "calibrated" not in shard.inputs:
        return Output(_fixed(pool, table, bootstrap_of(shard)))
    rewards = {
        level: bare_rewards(shard, context, pool, level)
        for level in np.unique(context.table(shard, "calibrated", "calibrated_rewards")["level"])
    }
    return Output(_adaptive(pool, table, rewards, bootstrap_of(shard)))


def _fixed(pool: QuestionPool, table: NDArray[np.float64], bootstrap: Bootstrap) -> dict[str, pd.DataFrame]:
    import pandas as pd

    most = table.shape[1]
    counts = sorted({*(2**power for power in range(most.bit_length()) if 2**power <= most), most})
    points = [
        _points(fixed_curve(table[chosen], counts, bootstrap), None, [None] * len(counts), question_level)
        for question_level, chosen in _by_difficulty(pool)
    ]
    areas = []
    if most > 1:
        every = fixed_curve(table, range(1, most + 1), bootstrap)
        areas = [_area("area", None, area_under(_ends(table, bootstrap), every, most), len(table))]
    return {
        "curve_points": pd.concat(points, ignore_index=True),
        "curve_areas": _areas(areas),
        "sample_accuracies": _by_question(pool, table),
    }


def _adaptive(
    pool: QuestionPool,
    table: NDArray[np.float64],
    rewards: dict[float, NDArray[np.float64]],
    bootstrap: Bootstrap,
) -> dict[str, pd.DataFrame]:
    import pandas as pd

    most = table.shape[1]
    points, areas, risks = [], [], []
    for level, reward in rewards.items():
        for question_level, chosen in _by_difficulty(pool):
            curve = adaptive_curve(table[chosen], reward[chosen], TARGETS, bootstrap)
            points.append(_points(curve, level, TARGETS, question_level))
        if most > 1:
            curve = adaptive_curve(table, reward, DENSE_TARGETS, bootstrap)
            areas.append(_area("area", level, area_under(_ends(table, bootstrap), curve, most), len(table)))
        answered = (reward, table[:, -1], pool.question_ids)
        selective = estimate(RiskCoverageArea(*answered), bootstrap)
        ends = (selective.value, selective.low, selective.high)
        areas.append(_area("risk_coverage_area", level, ends, len(table)))
        for threshold in _THRESHOLDS:
            coverage, risk = (
                estimate(Answering(*answered, threshold, wanted), bootstrap)
                for wanted in ("coverage", "risk")
            )
            risks.append(_risk(level, float(threshold), coverage, risk))
    return {
        "curve_points": pd.concat(points, ignore_index=True),
        "curve_areas": _areas(areas),
        "risk_points": pd.DataFrame(risks).astype({"questions": "int32"}),
    }


def _by_question(pool: QuestionPool, table: NDArray[np.float64]) -> pd.DataFrame:
    """What any setting's accuracy can be read from."""
    import pandas as pd

    questions, most = table.shape
    levels = pd.array(pool.question_levels).astype("Int32")
    return pd.DataFrame(
        {
            "question_id": np.repeat(pool.question_ids, most),
            "question_level": levels.repeat(most),
            "samples": np.tile(np.arange(1, most + 1, dtype=np.int32), questions),
            "accuracy": table.ravel(),
        }
    )


def _ends(table: NDArray[np.float64], bootstrap: Bootstrap) -> Curve:
    return fixed_curve(table, [1, table.shape[1]], bootstrap)


def _by_difficulty(pool: QuestionPool) -> list[tuple[int | None, NDArray[np.bool_]]]:
    """All questions, then those of each difficulty."""
    known = [level for level in np.unique(pool.question_levels) if not np.isnan(level)]
    everything = np.ones(len(pool.question_ids), dtype=bool)
    return [(None, everything), *((int(level), pool.question_levels == level) for level in known)]


def _points(curve: Curve, level: float | None, targets: Any, question_level: int | None) -> pd.DataFrame:
    import pandas as pd

    samples, accuracy = curve.intervals()
    frame = pd.DataFrame(
        {
            "level": pd.array([level] * len(curve.cost), dtype="Float64"),
            "target": pd.array(list(targets), dtype="Float64"),
            "question_level": pd.array([question_level] * len(curve.cost), dtype="Int32"),
            "point": np.arange(len(curve.cost), dtype=np.int32),
            "samples": curve.cost,
            "samples_low": samples[:, 0],
            "samples_high": samples[:, 1],
            "accuracy": curve.accuracy,
            "accuracy_low": accuracy[:, 0],
            "accuracy_high": accuracy[:, 1],
            "questions": np.int32(curve.questions),
        }
    )
    return frame


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

    columns = ["name", "level", "value", "low", "high", "questions"]
    frame = pd.DataFrame(rows, columns=columns)
    floats = dict.fromkeys(("level", "value", "low", "high"), "Float64")
    return frame.astype({"name": "str", "questions": "int32", **floats})


def _risk(level: float, threshold: float, coverage: Estimate, risk: Estimate) -> dict[str, Any]:
    return {
        "level": level,
        "threshold": threshold,
        "coverage": coverage.value,
        "coverage_low": coverage.low,
        "coverage_high": coverage.high,
        "risk": risk.value,
        "risk_low": risk.low,
        "risk_high": risk.high,
        "questions": risk.questions,
    }
