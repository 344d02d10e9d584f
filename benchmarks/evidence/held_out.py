"""Calibrators on held-out calibration questions, with several seeds. Use it to choose settings without test questions.

    python -m benchmarks.evidence.held_out runs/nano [SEEDS [PRM]]

For each LLM and PRM of a finished run, all calibrators of its grid are fitted again to 7 of 10 calibration questions
and measured on the others. The table also has `quantile-lora` with the mean squared error as loss, and with the other
way to train its head. A line is the mean over seeds, if the calibrator has a seed. Differences of Brier scores are to
`isotonic`, paired over the held-out questions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from prmcal.db.statistics.bootstrap import Bootstrap, Statistic, estimate
from prmcal.db.statistics.paired import Replicated, replicated_difference
from prmcal.harness.jobs.calibrators import features_of, scored_prefixes, without_terminal
from prmcal.harness.jobs.context import PREFIX, Context, successes_of
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import FitParameters
from prmcal.harness.metrics.measured import statistic_of
from prmcal.harness.planning.saved import existing_plan, load_plugins_of
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import Store
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.contracts.metric import PrefixRows
from prmcal.registry.plugins import calibrators, metrics

FITTED_SHARE, REFERENCE = 0.7, "isotonic"


def variants(
    shards: list[Shard[FitParameters]],
) -> Iterator[tuple[str, Shard[FitParameters], Mapping[str, Any]]]:
    """Yield the name, fit shard and arguments of each calibrator to fit."""
    for shard in shards:
        chosen = shard.parameters.calibrator
        yield chosen.name, shard, chosen.arguments
        if chosen.plugin == "quantile-lora":
            yield f"{chosen.name}, mse", shard, {**chosen.arguments, "loss": "mse"}
            for head in ("lora", "full"):
                if head != chosen.arguments.get("head", "lora"):
                    yield f"{chosen.name}, head: {head}", shard, {**chosen.arguments, "head": head}


def seeded(plugin: str, arguments: Mapping[str, Any], seeds: int) -> list[Calibrator]:
    """Create the calibrator with each seed, or once if it has no seed."""
    first = calibrators.create(plugin, **arguments)
    if not hasattr(first, "seed"):
        return [first]
    return [calibrators.create(plugin, **{**arguments, "seed": seed}) for seed in range(seeds)]


def held_out_rewards(
    calibrator: Calibrator,
    context: Context,
    shard: Shard[FitParameters],
    fitted: pd.DataFrame,
    held: pd.DataFrame,
) -> NDArray[np.float64]:
    """Fit to the prefixes `fitted`, and predict the median (rows,) for the prefixes `held`."""
    grouping: dict[str, Any] = {}
    if calibrator.grouped:
        grouping["questions"] = np.unique(fitted["question_id"].to_numpy(str), return_inverse=True)[1]
    calibrator.fit(
        features_of(context, shard, calibrator, fitted),
        fitted["successes"].to_numpy(np.int64),
        fitted["follow_ups"].to_numpy(np.int64),
        **grouping,
    )
    predicted = calibrator.predict(features_of(context, shard, calibrator, held))
    median: NDArray[np.float64] = np.asarray(predicted, np.float64)[:, predicted.shape[1] // 2]
    return median


def main(directory: Path, seeds: int, only_prm: str | None = None) -> None:
    folder = RunFolder(directory)
    load_plugins_of(folder)
    plan = existing_plan(folder)
    context, bootstrap = Context(Store(directory)), Bootstrap()
    groups: dict[tuple[str, str], list[Shard[FitParameters]]] = {}
    for job in plan.jobs_of(FitParameters):
        if only_prm in (None, job.labels.prm):
            groups.setdefault((job.labels.llm, job.labels.prm), []).extend(job.shards)
    print(
        "| LLM | PRM | calibrator | seeds | Brier, corrected | by seed | AdaptiveCE | Brier less isotonic's |"
    )
    print("|" + " --- |" * 8)
    for (llm, prm), shards in groups.items():
        rows = scored_prefixes(context, shards[0]).merge(
            successes_of(context, shards[0]), on=PREFIX, validate="one_to_one"
        )
        if not shards[0].parameters.terminal:
            rows = without_terminal(rows, "calibration")
        questions = rows["question_id"].unique()
        first = rows["question_id"].isin(questions[: round(FITTED_SHARE * len(questions))])
        fitted, held = rows[first].reset_index(drop=True), rows[~first].reset_index(drop=True)
        measured = {
            name: [
                prefix_rows(held, held_out_rewards(each, context, shard, fitted, held))
                for each in seeded(shard.parameters.calibrator.plugin, arguments, seeds)
            ]
            for name, shard, arguments in variants(shards)
        }
        reference = mean_brier(measured[REFERENCE])
        for name, found in measured.items():
            brier = estimate(mean_brier(found), bootstrap)
            weights = bootstrap.weights(len(reference.question_ids))
            less = replicated_difference(
                *(
                    Replicated(mean.value(), mean.values(weights), len(mean.question_ids))
                    for mean in (mean_brier(found), reference)
                )
            )
            cells = [
                llm,
                prm,
                name,
                str(len(found)),
                f"{brier.value:.4f} [{brier.low:.4f}, {brier.high:.4f}]",
                ", ".join(f"{statistic('brier_corrected', each).value():.4f}" for each in found),
                f"{np.mean([statistic('adaptive_ce', each).value() for each in found]):.4f}",
                f"{less.difference:.4f} [{less.low:.4f}, {less.high:.4f}]",
            ]
            print("| " + " | ".join(cells) + " |", flush=True)


def prefix_rows(held: pd.DataFrame, reward: NDArray[np.float64]) -> PrefixRows:
    """Combine held-out prefixes with their calibrated rewards."""
    columns = (held[name].to_numpy() for name in ("successes", "follow_ups", "question_id"))
    return PrefixRows(reward, *columns)


def statistic(name: str, rows: PrefixRows) -> Statistic:
    """Return the statistic of a metric."""
    found = statistic_of(metrics.create(name), rows, Bootstrap())
    assert found is not None
    return found


def mean_brier(seeds: list[PrefixRows]) -> Statistic:
    """Return the corrected Brier score over all seeds. Each prefix counts once per seed."""
    columns = ("reward", "successes", "follow_ups", "question")
    together = [np.concatenate([getattr(rows, name) for rows in seeds]) for name in columns]
    return statistic("brier_corrected", PrefixRows(*together))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int((sys.argv[2:] or ["3"])[0]), sys.argv[3] if len(sys.argv) > 3 else None)
