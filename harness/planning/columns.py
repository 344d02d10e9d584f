"""Whether the names and numbers of a plan from elsewhere can become columns of the database."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from prmcal.db.metrics import Leaderboard
from prmcal.db.run_folder import PLAN_FILE
from prmcal.errors import BundleError
from prmcal.harness.jobs.job import Labels
from prmcal.harness.planning.plan import Plan
from prmcal.harness.storage.folder import one_problem
from prmcal.registry.messages import reading

__all__ = ["check_columns"]


def check_columns(plan: Plan, where: str, advice: str) -> None:
    """Check that the names and numbers of a plan, which become columns, have their types and ranges.

    Raises
    ------
    BundleError
        If one of them has not. The message begins with `where` and ends with `advice`.
    """
    from pydantic import TypeAdapter

    from prmcal.harness.planning.grid import Name, StrategyName

    labels = [*(job.labels for job in plan.jobs), *(cell.labels for cell in plan.cells)]
    names = {name for each in labels for name in (each.llm, each.prm, each.calibrator, each.dataset) if name}
    cells = [(cell.leaderboard, cell.strategy, cell.target, cell.level) for cell in plan.cells]
    plugins = [
        (
            kind,
            each.name,
            each.reference.plugin,
            dict(each.reference.arguments),
            dict(each.identity),
            each.citation,
        )
        for kind, found in plan.plugins.items()
        for each in found
    ]
    datasets = [(each.name, each.split, each.content_hash, each.grader_version) for each in plan.datasets]
    questions = [
        (each.id, each.text, each.answer, each.level, each.subject)
        for data in plan.datasets
        for each in data.questions
    ]
    with reading(f"{where}: {PLAN_FILE} is damaged", advice, BundleError), one_problem():
        for kind, values in (
            (Labels, [asdict(job.labels) for job in plan.jobs]),
            (tuple[Leaderboard, str, float | None, float | None], cells),
            (tuple[str, str, str, dict[str, Any], dict[str, Any], str], plugins),
            (tuple[str, str, str, str], datasets),
            (tuple[str, str | None, str | None, int | None, str | None], questions),
            (Name, sorted(names)),
            (StrategyName, sorted({cell.strategy for cell in plan.cells if cell.strategy})),
        ):
            TypeAdapter(list[kind]).validate_json(json.dumps(values), strict=True)  # type: ignore[valid-type]
        for cell in plan.cells:
            if not cell.labels.llm or not cell.labels.dataset:
                raise ValueError("it has a cell without an LLM or a data set")
            for name, value in (("target", cell.target), ("level", cell.level)):
                if value is not None and not 0 < value < 1:  # A NaN is not in the range either.
                    raise ValueError(f"it has a cell with the {name} {value}, which is not between 0 and 1")
