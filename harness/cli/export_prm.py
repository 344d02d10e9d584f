"""``prmcal export-prm``: the calibrated PRM of a cell, as a checkpoint with its results on its card."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from prmcal.db.catalog import leaderboard, metrics, with_role
from prmcal.db.metrics import cell_id
from prmcal.db.queries.cells import cell_row, find_cell
from prmcal.db.reader import reading
from prmcal.db.text.board import estimate
from prmcal.db.text.formats import escape_markdown, markdown_grid, missing
from prmcal.db.text.presentation import LEADERBOARDS
from prmcal.errors import PrmcalError
from prmcal.harness.cli.options import DEFAULT_RUN, RunOption, argument, completing_cells, option
from prmcal.harness.jobs.parameters import FitParameters
from prmcal.harness.jobs.plugin_calls import plugin_guard
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.saved import existing_plan, load_plugins_of
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import ArtifactRef, Store
from prmcal.registry.plugins import calibrators, prms

_TASK = "token-classification"
"""The task of the hub that fits a PRM, which gives a number at some tokens."""


def export_prm(
    cell: Annotated[
        str,
        argument(
            "CELL",
            "A cell with a calibrator that fine-tunes the PRM, such as quantile-lora: its number or its id.",
            autocompletion=completing_cells,
        ),
    ],
    out: Annotated[Path, option("FOLDER", "The folder of the checkpoint: new or empty.", "--out")],
    level: Annotated[
        float, option("BETA", "The reward of the checkpoint: a level of the calibrator.", "--level")
    ] = 0.5,
    directory: RunOption = DEFAULT_RUN,
) -> None:
    """Write a calibrated PRM as a checkpoint.

    Its README.md shows how to load it with transformers and vLLM, and its calibration before and after.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise PrmcalError(f"{out} already exists. Choose a new or an empty folder for --out.")
    folder = RunFolder(directory)
    wanted = find_cell(folder.results(), cell)
    ref, fit = _fit(existing_plan(folder), wanted, directory)
    store = Store(directory)
    if store.manifest(ref.kind, ref.key) is None:
        raise PrmcalError(
            f"The calibrator of the cell '{wanted}' is not fitted yet. Run the grid again to continue it."
        )
    load_plugins_of(folder)
    calibrator, prm = fit.calibrator.build(calibrators), fit.prm.build(prms)
    with plugin_guard("calibrator", fit.calibrator.name, "export the PRM"):
        calibrator.load(store.folder(ref.kind, ref.key)).export(prm, out, level)
    with reading(folder.results()) as source:
        row = cell_row(source, wanted)
    _add_results(out / "README.md", folder.results(), row)
    typer.echo(f"Wrote the calibrated PRM to {out}. See {out / 'README.md'}.", err=True)


def _fit(plan: Plan, wanted: str, directory: Path) -> tuple[ArtifactRef, FitParameters]:
    """Return the shard that fits the calibrator of a cell: its artifact and its parameters."""
    jobs = [cell.job for cell in plan.cells if cell.cell_id == wanted]
    if not jobs:
        raise PrmcalError(
            f"There is no cell '{wanted}' in {directory}. `prmcal leaderboard {directory}` lists them."
        )
    while jobs:
        job = jobs.pop()
        for shard in job.shards:
            if isinstance(shard.parameters, FitParameters):
                return shard.ref, shard.parameters
        jobs += job.inputs
    raise PrmcalError(f"The cell '{wanted}' has no calibrator. Choose a cell with a calibrator.")


def _add_results(card_file: Path, published: Path, cell: Mapping[str, Any]) -> None:
    """Add the results of a cell to the card of its exported PRM: a table, and ``model-index`` in its metadata.

    The results are those of the cell's calibrator on all test data sets, with the same LLM and PRM. Without results, or
    without a card, nothing is written.
    """
    if not card_file.is_file():
        return
    from huggingface_hub import EvalResult, ModelCard

    with reading(published) as source:
        rows = {
            row["cell_id"]: row
            for row in leaderboard(source, llm=[cell["llm"]], prm=[cell["prm"]]).to_dict("records")
            if row["status"] == "done"
        }
        described = metrics(source)
        baseline = next(iter(with_role(source, "baseline")), None)
    lines, results = [], []
    for after in rows.values():
        if after["calibrator"] != cell["calibrator"]:
            continue
        before = rows.get(
            cell_id("calibration", cell["llm"], after["dataset"], prm=cell["prm"], calibrator=baseline), {}
        )
        counts = {"questions": int(after["questions"]), "prefixes": int(after["rows"])}
        for name in LEADERBOARDS["calibration"].main_metrics:
            if missing(after.get(name)):
                continue
            title = f"{described.title(name)} ({described.direction(name)})"
            numbers = [
                _estimate(before, name),
                _estimate(after, name),
                *(f"{each:,}" for each in counts.values()),
            ]
            lines.append([escape_markdown(after["dataset"]), title, *numbers])
            ends = [after[f"{name}_low"], after[f"{name}_high"]]
            interval = {} if missing(ends[0]) else {"interval_95": [round(float(each), 6) for each in ends]}
            results.append(
                EvalResult(
                    task_type=_TASK,
                    task_name="Process reward modelling",
                    dataset_type=after["dataset"],
                    dataset_name=after["dataset"],
                    dataset_split="test",
                    dataset_args={"llm": cell["llm"]},
                    metric_type=name,
                    metric_name=described.title(name),
                    metric_value=round(float(after[name]), 6),
                    metric_args={**interval, **counts},
                )
            )
    if not lines:
        return
    card = ModelCard.load(card_file)
    card.data.model_name = next(
        (line.removeprefix("# ") for line in card.text.splitlines() if line.startswith("# ")),
        card_file.parent.name,
    )
    card.data.eval_results = results
    head = ["Data set", "Metric", "Before", "After", "Questions", "Prefixes"]
    card.text = (
        f"{card.text.rstrip()}\n\n## Results\n\nErrors of the rewards, compared with Monte Carlo success rates of "
        f"prefixes of {escape_markdown(cell['llm'])} on test questions, with 95% intervals over questions. Before: "
        "the rewards of the original PRM. After: the median.\n\n" + markdown_grid(head, lines, left=2) + "\n"
    )
    card.save(card_file)


def _estimate(row: Mapping[str, Any], metric: str) -> str:
    if missing(row.get(metric)):
        return ""
    return estimate(metric, row[metric], row[f"{metric}_low"], row[f"{metric}_high"])
