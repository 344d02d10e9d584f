"""The results on the card of an exported PRM: its calibration before and after, from the leaderboard of its run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prmcal.db.catalog import leaderboard, metrics, with_role
from prmcal.db.cells import cell_id
from prmcal.db.reader import reading
from prmcal.db.text.formats import escape_markdown, markdown_grid
from prmcal.db.text.presentation import LEADERBOARDS
from prmcal.db.text.readable import estimate, missing

__all__ = ["add_results"]

_TASK = "token-classification"
"""The task of the hub that fits a PRM, which gives a number at some tokens."""


def add_results(card_file: Path, published: Path, cell: Mapping[str, Any]) -> None:
    """Add the results of a cell to the card of its exported PRM: a table, and ``model-index`` in its metadata.

    The results are those of the cell's calibrator on all test data sets, with the same LLM and PRM. Without results, or
    without a card, nothing is written.

    Parameters
    ----------
    card_file : Path
        The file ``README.md`` of the checkpoint.
    published : Path
        The published copy of the database.
    cell : mapping
        The row of the cell in the table ``cells``.
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
        for name in LEADERBOARDS["calibration"].main_metrics:
            if missing(after.get(name)):
                continue
            counts = {"questions": int(after["questions"]), "prefixes": int(after["rows"])}
            lines.append(
                [
                    escape_markdown(after["dataset"]),
                    f"{described.title(name)} ({described.direction(name)})",
                    _estimate(before, name),
                    _estimate(after, name),
                    *(f"{count:,}" for count in counts.values()),
                ]
            )
            interval = (
                {}
                if missing(after[f"{name}_low"])
                else {"interval_95": [round(float(after[f"{name}_{end}"]), 6) for end in ("low", "high")]}
            )
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
