"""Parts of a grid: the cells with certain names, and what they need."""

from __future__ import annotations

import pytest

from prmcal.errors import GridError
from prmcal.harness.planning.plan import Only, Plan
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.planning.reading import read_grid
from prmcal.registry.plugins import load_plugin_file
from tests.conftest import PLUGINS
from tests.harness.execution.synthetic_grid import SYNTHETIC


@pytest.fixture(scope="module")
def plan() -> Plan:
    """A grid with two LLMs, two data sets and a search."""
    load_plugin_file(SYNTHETIC)
    grid = read_grid(PLUGINS / "synthetic.yaml")
    strategies = ["pass@1", "best-of-n", "beam search + IAS-of-K"]
    return build_plan(grid.model_validate(grid.model_dump() | {"strategies": strategies}))


def part(plan: Plan, **only: str) -> Plan:
    return plan.part(plan.cells_with({kind: [name] for kind, name in only.items()}))


@pytest.mark.parametrize(
    "only",
    [
        {"llm": "weak"},
        {"calibrator": "isotonic"},
        {"dataset": "long"},
        {"strategy": "beam search + IAS-of-K"},
        {"llm": "strong", "strategy": "best-of-n"},
    ],
)
def test_a_part_has_all_that_its_cells_need_under_the_same_keys(plan: Plan, only: dict[str, str]) -> None:
    found = part(plan, **only)
    known = {shard.ref for shard in plan.shards()}
    there: set[object] = set()
    for shard in found.shards():
        assert {ref for refs in shard.inputs.values() for ref in refs} <= there
        there.add(shard.ref)
    assert there < known
    assert 0 < len(found.cells) < len(plan.cells)
    assert {cell.cell_id for cell in found.cells} < {cell.cell_id for cell in plan.cells}


def kinds(plan: Plan) -> set[str]:
    return {job.kind for job in plan.jobs}


def test_a_part_has_nothing_that_its_cells_do_not_need(plan: Plan) -> None:
    assert {job.labels.llm for job in part(plan, llm="weak").jobs} == {"weak"}
    isotonic = part(plan, calibrator="isotonic")
    assert {job.labels.calibrator for job in isotonic.jobs} == {"", "isotonic"}
    assert {"fit", "success", "calibration_metrics", "curves"} <= kinds(isotonic)
    assert kinds(part(plan, strategy="pass@1")) == {"rollout", "graded", "strategy"}
    assert "fit" not in kinds(part(plan, strategy="best-of-n"))
    assert "search" in kinds(part(plan, strategy="beam search + IAS-of-K"))


def test_names_of_a_kind_add_up_and_kinds_restrict_each_other(plan: Plan) -> None:
    both = plan.cells_with({"calibrator": ["isotonic", "histogram"], "llm": ["weak"]})
    assert {cell.labels.calibrator for cell in both} == {"isotonic", "histogram"}
    assert {cell.labels.llm for cell in both} == {"weak"}
    assert len(plan.cells_with({})) == len(plan.cells)


@pytest.mark.parametrize(
    ("only", "message"),
    [
        ({"llm": ["week"]}, r"The grid has no llm 'week'\. Did you mean 'weak'\?"),
        ({"prm": ["qwen"]}, r"The grid has no prm 'qwen'\. It has: verifier\."),
        ({"model": ["weak"]}, r"A part of a grid is chosen by llm, prm, .*\. Got 'model'\."),
        (
            {"strategy": ["pass@1"], "prm": ["verifier"]},
            r"No cell of the grid has all of: strategy pass@1, prm verifier\.",
        ),
    ],
)
def test_a_part_without_cells_is_refused(plan: Plan, only: Only, message: str) -> None:
    with pytest.raises(GridError, match=message):
        plan.cells_with(only)
