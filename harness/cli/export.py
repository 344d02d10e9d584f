"""``prmcal export``: the results of a run as one page, and the success rates of its prefixes as a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from prmcal.errors import PrmcalError
from prmcal.harness.cli.options import RunArgument, option
from prmcal.harness.jobs.context import Context
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.planning.saved import existing_plan
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import Store, replacing
from prmcal.steps import join_steps, split_steps

_SUFFIXES = (".jsonl", ".json", ".parquet")
_TEXTS = ("question", "reasoning_prefix")


def export(
    directory: RunArgument,
    html: Annotated[Path | None, option("PAGE", "A file that ends in .html.")] = None,
    success_rates: Annotated[Path | None, option("FILE", "A file that ends in .jsonl, .json or .parquet.")] = None,
) -> None:
    """Write the results of a run as one page, or its success rates as a file.

    The page has everything in one file: a browser shows it without a server, and it can be sent or hosted anywhere. The
    file with the success rates of all prefixes has the format of the published calibration set.
    """
    if html is None and success_rates is None:
        raise PrmcalError("There is nothing to write. Give --html PAGE or --success-rates FILE.")
    if html is not None:
        from prmcal.harness.site import write_page

        write_page(directory, html)
        typer.echo(f"Wrote {html}.", err=True)
    if success_rates is not None:
        rows = write_success_rates(directory, success_rates)
        typer.echo(f"Wrote {rows:,} prefixes to {success_rates}.", err=True)


def write_success_rates(directory: Path, out: Path) -> int:
    """Write the success rates of all prefixes of a run, and return their number.

    The published fields are `question`, `reasoning_prefix` (steps separated by blank lines; empty for the question
    alone) and `success_prob`. Raises a PrmcalError if the name of the file has another suffix, the run has no success
    rates, or the file cannot be written.
    """
    if out.suffix not in _SUFFIXES:
        raise PrmcalError(f"--success-rates must end in {', '.join(_SUFFIXES)}. Got '{out}'.")
    plan = existing_plan(RunFolder(directory))
    texts = {
        (data.name, data.split): {question.id: question.text for question in data.questions} for data in plan.datasets
    }
    store = Store(directory)
    context = Context(store)
    frames = []
    for job in plan.jobs:
        labels = {"llm": job.labels.llm, "dataset": job.labels.dataset, "split": job.labels.split}
        counts = [
            _success_rows(context, shard, texts[labels["dataset"], labels["split"]]).assign(**labels)
            for shard in job.shards
            if job.kind == "success" and store.manifest(shard.ref) is not None
        ]
        if counts:
            # A prefix has a row for each block of follow-ups.
            keys = [*_TEXTS, *labels, "question_id", "trajectory", "step"]
            blocks = pd.concat(counts, ignore_index=True).groupby(keys, as_index=False, sort=False)
            added = blocks[["successes", "follow_ups"]].sum()
            added.insert(2, "success_prob", added["successes"] / added["follow_ups"])
            frames.append(added)
    if not frames:
        raise PrmcalError(f"{directory} has no success rates yet. Run its grid.")
    rows = pd.concat(frames, ignore_index=True)
    with replacing(out) as temporary:
        if out.suffix == ".parquet":
            rows.to_parquet(temporary, index=False)
        else:
            rows.to_json(temporary, orient="records", lines=out.suffix == ".jsonl", force_ascii=False)
    return len(rows)


def _success_rows(context: Context, shard: Shard[Parameters], questions: Mapping[str, str]) -> pd.DataFrame:
    """Return the prefixes of a shard with their counts and texts. `questions` are the texts by question id."""
    trajectories = context.table(shard, "graded", "trajectories").set_index(["question_id", "trajectory"])
    steps = {key: split_steps(text) for key, text in trajectories["text"].items()}
    counts = context.store.read(shard.ref, "successes").to_pandas()
    prefixes = [join_steps(steps[row.question_id, row.trajectory][: row.step]) for row in counts.itertuples()]
    return counts.assign(question=counts["question_id"].map(questions), reasoning_prefix=prefixes)
