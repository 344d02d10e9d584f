"""``prmcal export-success``: the success rates of a run's prefixes, in the form of the published calibration set.

The authors of the paper publish a calibration set whose rows have the fields question, reasoning_prefix and
success_prob.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from prmcal.errors import PrmcalError, StorageError
from prmcal.harness.jobs.context import Context
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.planning.again import existing_plan
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import Store
from prmcal.steps import join_steps, split_steps

__all__ = ["export_success"]

_SUFFIXES = (".jsonl", ".json", ".parquet")


def export_success(directory: Path, out: Path) -> int:
    """Write the success rates of all prefixes of a run that have follow-ups.

    Parameters
    ----------
    directory : Path
        The output folder of a run.
    out : Path
        A file that ends in .jsonl, .json or .parquet. Its rows have the published fields `question`,
        `reasoning_prefix` (steps separated by blank lines; empty for the question alone) and `success_prob`, and also
        `llm`, `dataset`, `split`, `question_id`, `trajectory`, `step`, `successes` and `follow_ups`.

    Returns
    -------
    int
        Number of rows.

    Raises
    ------
    PrmcalError
        If the run has no success rates yet, or `out` has another ending.
    """
    if out.suffix not in _SUFFIXES:
        raise PrmcalError(f"--out must end in {', '.join(_SUFFIXES)}. Got '{out}'.")
    plan = existing_plan(RunFolder(directory))
    texts = {
        (data.name, data.split): {question.id: question.text for question in data.questions}
        for data in plan.datasets
    }
    store = Store(directory)
    context = Context(store)
    frames = []
    for job in plan.jobs:
        if job.kind == "success":
            done = [
                shard for shard in job.shards if store.manifest(shard.ref.kind, shard.ref.key) is not None
            ]
            labels = {"llm": job.labels.llm, "dataset": job.labels.dataset, "split": job.labels.split}
            questions = texts[job.labels.dataset, job.labels.split]
            counted = [_success_rows(context, shard, questions).assign(**labels) for shard in done]
            if counted:
                frames.append(_added_up(pd.concat(counted, ignore_index=True)))
    if not frames:
        raise PrmcalError(f"{directory} has no success rates yet. Run its grid.")
    rows = pd.concat(frames, ignore_index=True)
    try:
        if out.suffix == ".parquet":
            rows.to_parquet(out, index=False)
        else:
            rows.to_json(out, orient="records", lines=out.suffix == ".jsonl", force_ascii=False)
    except OSError as error:
        raise StorageError(f"{out} cannot be written: {error.strerror or error}.") from error
    return len(rows)


def _success_rows(context: Context, shard: Shard[Parameters], questions: Mapping[str, str]) -> pd.DataFrame:
    """Return the prefixes of a shard with their counts and texts. `questions` are the texts by question id."""
    trajectories = context.table(shard, "rollout", "trajectories").set_index(["question_id", "trajectory"])
    steps = {key: split_steps(text) for key, text in trajectories["text"].items()}
    counts = context.store.read(shard.ref.kind, shard.ref.key, "successes").to_pandas()
    prefixes = [
        join_steps(steps[row.question_id, row.trajectory][: row.step])
        for row in counts.itertuples(index=False)
    ]
    return counts.assign(question=counts["question_id"].map(questions), reasoning_prefix=prefixes)


def _added_up(rows: pd.DataFrame) -> pd.DataFrame:
    """Add up the blocks of follow-ups of each prefix, and compute its success rate."""
    first = ["question", "reasoning_prefix"]
    keys = [*first, "llm", "dataset", "split", "question_id", "trajectory", "step"]
    added = rows.groupby(keys, as_index=False, sort=False)[["successes", "follow_ups"]].sum()
    added.insert(2, "success_prob", added["successes"] / added["follow_ups"])
    return added
