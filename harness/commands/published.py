"""Data in the forms in which others publish it: success rates of prefixes, and first passes with their rewards.

The authors of the paper publish a calibration set as rows of question, reasoning_prefix and success_prob, and their
code writes first passes as lists of question, gold_answer and generations, with rewards in an array beside them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prmcal.errors import DataError, PrmcalError
from prmcal.harness.jobs.context import Context
from prmcal.harness.jobs.job import Shard
from prmcal.harness.planning.again import plan_again
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import Store
from prmcal.registry.contracts.data import join_steps, split_steps
from prmcal.registry.datasets.records import read_records

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["export_success", "import_first_pass"]

_WRITERS = (".jsonl", ".json", ".parquet")
_LEAST_REWARD = 1e-7  # Rewards of exactly 0 and 1, as half precision gives them, have no logit.


def export_success(directory: Path, out: Path) -> int:
    """Write the success rates of all prefixes that a run has followed up.

    Parameters
    ----------
    directory : Path
        The folder of a run.
    out : Path
        A file that ends in .jsonl, .json or .parquet. Its rows have the published fields `question`,
        `reasoning_prefix` (steps parted by blank lines, empty for the bare question) and `success_prob`, and
        besides `successes`, `follow_ups`, `llm`, `dataset`, `split`, `question_id`, `trajectory` and `step`.

    Returns
    -------
    int
        How many rows.

    Raises
    ------
    PrmcalError
        If the run has no success rates yet, or `out` ends otherwise.
    """
    import pandas as pd

    if out.suffix not in _WRITERS:
        raise PrmcalError(f"--out must end in {', '.join(_WRITERS)}. Got '{out}'.")
    record = RunFolder(directory).record()
    store = Store(directory)
    context = Context(store)
    frames = []
    for job in plan_again(record).jobs:
        if job.kind == "success":
            done = [
                shard for shard in job.shards if store.manifest(shard.ref.kind, shard.ref.key) is not None
            ]
            labels = {"llm": job.labels.llm, "dataset": job.labels.dataset, "split": job.labels.split}
            counted = [_success_rows(context, shard).assign(**labels) for shard in done]
            if counted:
                frames.append(_added_up(pd.concat(counted, ignore_index=True)))
    if not frames:
        raise PrmcalError(f"{directory} has no success rates yet. Run its grid.")
    rows = pd.concat(frames, ignore_index=True)
    if out.suffix == ".parquet":
        rows.to_parquet(out, index=False)
    else:
        rows.to_json(out, orient="records", lines=out.suffix == ".jsonl", force_ascii=False)
    return len(rows)


def _success_rows(context: Context, shard: Shard) -> pd.DataFrame:
    """The prefixes of a shard with their texts."""
    questions = {question.id: question.text for question in context.questions(shard)}
    trajectories = context.table(shard, "rollout", "trajectories").set_index(["question_id", "trajectory"])
    steps = {key: split_steps(text) for key, text in trajectories["text"].items()}
    counts = context.store.read(shard.ref.kind, shard.ref.key, "successes").to_pandas()
    prefixes = [
        join_steps(steps[row.question_id, row.trajectory][: row.step])
        for row in counts.itertuples(index=False)
    ]
    return counts.assign(question=counts["question_id"].map(questions), reasoning_prefix=prefixes)


def _added_up(rows: pd.DataFrame) -> pd.DataFrame:
    """Blocks of follow-ups of the same prefix as one row."""
    first = ["question", "reasoning_prefix"]
    keys = [*first, "llm", "dataset", "split", "question_id", "trajectory", "step"]
    added = rows.groupby(keys, as_index=False, sort=False)[["successes", "follow_ups"]].sum()
    added.insert(2, "success_prob", added["successes"] / added["follow_ups"])
    return added


def import_first_pass(files: Sequence[Path], out: Path, rewards: Path | None = None) -> int:
    """Make a recording of published first passes, for the LLM, the PRM and the data set of a grid like recorded.yaml.

    Parameters
    ----------
    files : sequence of Path
        JSON lists (or JSON lines, or Parquet) of objects with `question`, `gold_answer` and `generations`, in the
        order of the rewards.
    out : Path
        JSON lines with `question`, `answer`, `solutions` and, with rewards, `logits`; see registry/recordings.py.
    rewards : Path, optional
        A .npy file of rewards in [0, 1], of shape (questions, samples).

    Returns
    -------
    int
        How many questions.

    Raises
    ------
    DataError
        If a file cannot be read, a record has other fields, or the rewards are of another shape.
    """
    records = [record for file in files for record in _first_passes(file)]
    logits = (
        _logits(rewards, [len(record["solutions"]) for record in records]) if rewards is not None else None
    )
    for number, record in enumerate(records):
        if logits is not None:
            record["logits"] = logits[number]
    out.write_text(
        "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8"
    )
    return len(records)


def _first_passes(file: Path) -> Iterator[dict[str, Any]]:
    for place, record in read_records(file):
        fields = record if isinstance(record, dict) else {}
        question, answer, texts = (fields.get(name) for name in ("question", "gold_answer", "generations"))
        whole = isinstance(texts, list) and bool(texts) and all(isinstance(text, str) for text in texts)
        if not isinstance(question, str) or not isinstance(answer, str | int) or not whole:
            raise DataError(
                f"{file}, {place}: a first pass has a 'question', a 'gold_answer' and 'generations', a list of texts."
            )
        yield {"question": question, "answer": str(answer), "solutions": texts}


def _logits(file: Path, samples: Sequence[int]) -> list[list[float]]:
    import numpy as np
    from scipy.special import logit

    try:
        rewards = np.load(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise DataError(f"The rewards {file} cannot be read: {error}.") from error
    expected = (len(samples), samples[0] if len(set(samples)) == 1 else -1)
    if rewards.shape != expected or not np.issubdtype(rewards.dtype, np.floating):
        raise DataError(
            f"The rewards {file} must be numbers of shape (questions, samples), here ({len(samples)}, "
            f"{', '.join(map(str, sorted(set(samples))))}). Got {rewards.dtype} of shape {rewards.shape}."
        )
    if not bool(((rewards >= 0) & (rewards <= 1)).all()):
        raise DataError(f"The rewards {file} must be in [0, 1]. Got {rewards.min():g} to {rewards.max():g}.")
    clipped = np.clip(rewards.astype(np.float64), _LEAST_REWARD, 1 - _LEAST_REWARD)
    found: list[list[float]] = logit(clipped).tolist()
    return found
