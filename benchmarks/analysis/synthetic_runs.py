"""Folders of finished runs without their models: the plan of a grid, and artifacts whose values are drawn from a seed.

Every artifact has the tables, the columns and about the number of rows of a real one, so that merging costs what it
costs for a real run. The values are plausible, but they do not follow from each other. A trajectory has 4 to 20 steps.
What a bundle leaves out anyway is small here: texts have 10 characters, and hidden states are empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prmcal.harness.execution.machine import run_environment
from prmcal.harness.jobs.job import Job, Shard
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.planning.saved import write_plan
from prmcal.harness.storage.folder import RunFolder, RunRecord
from prmcal.harness.storage.store import Store, content_key

if TYPE_CHECKING:
    import pyarrow as pa


Columns = dict[str, Any]
Tables = dict[str, Columns]

_FEWEST_STEPS, _MORE_STEPS = 4, 17
_DIFFICULTIES = (None, 1, 2, 3, 4, 5)
"""Those of all questions together, and of single ones, which AIME does not have."""
_LEVELS = (0.1, 0.5, 0.9)
_SCALING = (
    "accuracy",
    "budget_ratio",
    "samples",
    "wrong",
    "generated_tokens",
    "prefill_tokens",
    "prm_tokens",
)


def write_synthetic_run(out: Path, grid: GridSpec, seed: int) -> Path:
    """Write the folder of a finished run of a grid, without its database.

    Parameters
    ----------
    out : Path
        A new folder.
    grid : GridSpec
        Its models and data need not be on this machine.
    seed : int
        Takes the place of the grid's seed. It decides the keys, and by them all values.
    """
    seeded = grid.model_copy(update={"seed": seed})
    plan = build_plan(seeded, stand_ins=True)
    calibration = [each.name for each in plan.metrics if each.leaderboard == "calibration"]
    store = Store(out)
    for job in plan.jobs:
        for shard in job.shards:
            tables = _Drawn(job, shard, calibration).tables()
            store.write(shard.ref, partial(_write, tables), {"seconds": 1.0})
    started = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=seed)
    record = RunRecord(
        grid=seeded.model_dump(mode="json"),
        plugin_files=[],
        run_id=f"{seed:012x}",
        started_at=started.isoformat(),
        environment=run_environment(),
        finished_at=(started + timedelta(minutes=30)).isoformat(),
    )
    RunFolder(out).write_record(record)
    write_plan(out, record.grid, plan)
    return out


def _write(tables: Tables, folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    if not tables:  # A saved calibrator, or hidden states.
        (folder / "empty.json").write_text("{}")
    for name, columns in tables.items():
        parquet.write_table(pa.table(columns), folder / f"{name}.parquet")


class _Drawn:
    """The artifact of a shard, with values from the seed of the shard."""

    def __init__(self, job: Job[Any], shard: Shard[Any], calibration: Sequence[str]) -> None:
        self._job = job
        self._given = shard.parameters
        self._random = np.random.default_rng(shard.seed)
        self._questions = [str(number) for number in self._given.data.questions]
        self._calibration = calibration

    def tables(self) -> Tables:
        """Return the tables of the artifact; none for saved calibrators and hidden states."""
        kind = self._job.kind
        if kind in ("strategy", "search_results"):
            return self._measured(_SCALING, _SCALING)
        if kind == "calibration_metrics":
            return {**self._measured(self._calibration, ["brier_corrected"]), **self._bins()}
        if kind == "curves":
            return self._curves()
        of_samples = {
            "rollout": ("trajectories", self._trajectories),
            "success": ("successes", self._successes),
            "score": ("rewards", self._rewards),
            "calibrated": ("calibrated_rewards", self._calibrated),
            "search": ("searches", self._searches),
        }
        if kind not in of_samples:
            return {}
        name, columns = of_samples[kind]
        return {name: columns()}

    def _trajectories(self) -> Columns:
        pool = self._pool()
        _, _, steps = self._trajectory_axes()
        rows = len(steps)
        correct = self._random.random(rows) < 0.6
        answers = self._integers(rows, 100).astype(str)
        return {
            **pool,
            "text": self._integers(rows, 10**10).astype(str),
            "steps": steps,
            "tokens": 60 * steps,
            "prompt_tokens": np.full(rows, 250, np.int32),
            "finish_reason": _texts(["end"], np.zeros(rows, np.int64)),
            "answer": answers,
            "verdict": _texts(["wrong", "correct"], correct.astype(np.int64)),
            "correct": correct,
        }

    def _successes(self) -> Columns:
        prefixes = self._prefixes()
        rows, most = len(prefixes["step"]), len(self._given.follow_ups)
        return {
            **prefixes,
            "successes": self._random.binomial(most, self._random.random(rows)).astype(np.int32),
            "follow_ups": np.full(rows, most, np.int32),
            "terminal": self._random.random(rows) < 0.08,
        }

    def _rewards(self) -> Columns:
        prefixes = self._prefixes()
        logit = self._random.normal(1, 2, len(prefixes["step"])).astype(np.float32)
        return {
            **prefixes,
            "logit": logit,
            "reward": 1 / (1 + np.exp(-logit.astype(np.float64))),
            "over_long": np.zeros(len(logit), dtype=bool),
        }

    def _calibrated(self) -> Columns:
        prefixes = self._prefixes()
        levels = _LEVELS if self._job.labels.calibrator == "quantile-lora" else (0.5,)
        rows = len(prefixes["step"]) * len(levels)
        return {
            **{name: _repeated(values, len(levels)) for name, values in prefixes.items()},
            "level": np.tile(levels, len(prefixes["step"])),
            "reward": self._random.random(rows),
        }

    def _searches(self) -> Columns:
        rows = len(self._questions)
        correct = self._random.random(rows) < 0.7
        counts = {
            name: self._integers(rows, 20) + 1 for name in ("steps", "finished", "rounds", "generations")
        }
        tokens = ("generated_tokens", "prefill_tokens", "scored_tokens")
        return {
            "question_id": self._questions,
            "text": self._integers(rows, 10**10).astype(str),
            **{name: values.astype(np.int32) for name, values in counts.items()},
            "reward": self._random.random(rows),
            "answer": self._integers(rows, 100).astype(str),
            "verdict": _texts(["wrong", "correct"], correct.astype(np.int64)),
            "correct": correct,
            "any_correct": correct,
            **{name: self._integers(rows, 10**5) for name in tokens},
        }

    def _curves(self) -> Tables:
        questions = len(self._questions)
        rows = 16
        points = {
            "level": np.full(rows, 0.5),
            "target": np.linspace(0.1, 1, rows),
            "point": np.arange(rows, dtype=np.int32),
            **self._with_intervals("samples", rows),
            **self._with_intervals("accuracy", rows),
            "questions": np.full(rows, questions, np.int32),
        }
        areas = {
            "name": ["area"],
            "level": [0.5],
            **self._with_intervals("value", 1, "low", "high"),
            "questions": np.array([questions], np.int32),
        }
        if not self._job.labels.calibrator:
            numbers = np.tile(np.arange(1, self._given.samples + 1, dtype=np.int32), questions)
            accuracies = {
                "question_id": _texts(self._questions, np.repeat(np.arange(questions), self._given.samples)),
                "samples": numbers,
                "accuracy": self._random.random(len(numbers)),
            }
            return {"curve_points": points, "curve_areas": areas, "sample_accuracies": accuracies}
        rows = 21
        risks = {
            "level": np.full(rows, 0.5),
            "threshold": np.linspace(0, 1, rows),
            **self._with_intervals("coverage", rows),
            **self._with_intervals("risk", rows),
            "questions": np.full(rows, questions, np.int32),
        }
        return {"curve_points": points, "curve_areas": areas, "risk_points": risks}

    def _measured(self, metrics: Sequence[str], of_questions: Sequence[str]) -> Tables:
        import pyarrow as pa

        questions, drawn = len(self._questions), self._given.bootstrap.replicates
        rows = len(metrics)
        own = len(of_questions)
        levels = _DIFFICULTIES if "math" in self._job.labels.dataset else _DIFFICULTIES[:1]
        values = rows * len(levels)
        return {
            "results": {
                "metric": _texts(metrics, np.tile(np.arange(rows), len(levels))),
                "question_level": pa.array(levels, pa.int32()).take(
                    pa.array(np.repeat(np.arange(len(levels)), rows))
                ),
                **self._with_intervals("value", values, "low", "high"),
                "rows": np.full(values, questions, np.int32),
                "questions": np.full(values, questions, np.int32),
            },
            "question_results": {
                "question_id": _texts(self._questions, np.tile(np.arange(questions), own)),
                "metric": _texts(of_questions, np.repeat(np.arange(own), questions)),
                "value": self._random.random(questions * own),
            },
            "replicates": {
                "metric": _texts(metrics, np.repeat(np.arange(rows), drawn)),
                "resampled": _texts([content_key(list(self._questions))], np.zeros(rows * drawn, np.int64)),
                "replicate": np.tile(np.arange(drawn), rows),
                "value": self._random.normal(0.5, 0.05, rows * drawn),
            },
        }

    def _bins(self) -> Tables:
        bins = self._given.bins
        reliability = {
            **_edges(0, bins),
            "count": self._integers(bins, 10**4).astype(np.int32),
            **self._with_intervals("mean_success", bins, "low", "high"),
            "mean_reward": self._random.random(bins),
        }
        errors = {**_edges(-1, 2 * bins), "count": self._integers(2 * bins, 10**4).astype(np.int32)}
        return {"reliability_bins": reliability, "signed_error_bins": errors}

    def _pool(self) -> Columns:
        places, numbers, _ = self._trajectory_axes()
        return {"question_id": _texts(self._questions, places), "trajectory": numbers}

    def _prefixes(self) -> Columns:
        places, numbers, steps = self._trajectory_axes()
        counts = steps + 1
        ends = np.cumsum(counts)
        step = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
        return {
            "question_id": _texts(self._questions, np.repeat(places, counts)),
            "trajectory": np.repeat(numbers, counts),
            "step": step.astype(np.int32),
        }

    def _trajectory_axes(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        """Return the place of the question, the index and the steps of each trajectory."""
        given = self._given.trajectories
        own = np.arange(given.start, given.stop, dtype=np.int32)
        places = np.repeat(np.arange(len(self._questions)), len(own))
        numbers = np.tile(own, len(self._questions))
        # They are the same in all jobs that read a trajectory.
        mixed = (self._given.data.questions.start + places) * 64 + numbers
        steps = _FEWEST_STEPS + mixed * 2_654_435_761 % 2**32 % _MORE_STEPS
        return places, numbers, steps.astype(np.int32)

    def _integers(self, rows: int, end: int) -> NDArray[np.int64]:
        return self._random.integers(end, size=rows)

    def _with_intervals(self, name: str, rows: int, low: str = "", high: str = "") -> Columns:
        value, half = self._random.random(rows), 0.1 * self._random.random(rows)
        return {name: value, low or f"{name}_low": value - half, high or f"{name}_high": value + half}


def _texts(values: Sequence[str], places: NDArray[np.int64]) -> pa.Array:
    """Return the text at each place. NumPy would take most of the time for it."""
    import pyarrow as pa

    return pa.array(values, pa.large_string()).take(pa.array(places))


def _repeated(values: Any, times: int) -> Any:
    import pyarrow as pa

    array = pa.array(values)
    return array.take(pa.array(np.repeat(np.arange(len(array)), times)))


def _edges(first: float, bins: int) -> Columns:
    edges = np.linspace(first, 1, bins + 1)
    return {"bin": np.arange(bins, dtype=np.int32), "lower": edges[:-1], "upper": edges[1:]}
