"""Plans with several strategies: what each reads, what searches share, and what is kept to a part of a grid."""

from __future__ import annotations

from typing import Any

import pytest

from prmcal.errors import GridError
from prmcal.harness.jobs.parameters import FitParameters, GradedSearchParameters, SearchParameters
from prmcal.registry.plugins import strategies
from tests.harness.planning.synthetic_plans import data, plan, refs


def test_a_strategy_is_run_once_for_what_it_reads() -> None:
    names = ["pass@1", "majority vote", "best-of-n", "best-of-n + IAS", "oracle IAS"]
    planned = plan(prms=[{"name": name, "plugin": "synthetic-prm"} for name in "ab"], strategies=names)
    one = [c for c in planned.cells if (c.labels.llm, c.labels.dataset) == ("weak", "long")]
    cells = {name: [cell for cell in one if cell.strategy == name] for name in names}
    assert {name: len(found) for name, found in cells.items()} == {
        "pass@1": 1,
        "majority vote": 1,
        "best-of-n": 2,  # PRMs
        "best-of-n + IAS": 2 * 4 * 2,  # PRMs x calibrators x targets
        "oracle IAS": 2 * 2,  # PRMs x targets
    }
    roles = {name: set(found[0].job.shards[0].inputs) for name, found in cells.items()}
    assert roles["pass@1"] == roles["majority vote"] == {"graded"}
    assert roles["best-of-n"] == {"graded", "score"}
    assert roles["best-of-n + IAS"] == {"graded", "score", "calibrated"}
    assert roles["oracle IAS"] == {"graded", "score", "success"}


BEAMS = ("beam search", "beam search + IAS-of-K", "beam search + IAS-of-M")


def searches(rank: str, **changes: Any) -> tuple[list[tuple[str, str, float | None, float | None]], int]:
    """The cells of the three searches for one LLM and data set, and the number of searches that are run for them."""
    one = {"llms": data()["llms"][:1], "datasets": data()["datasets"][:1]}
    beams = [{"name": name, "arguments": {"rank": rank}, **changes} for name in BEAMS]
    spread = ["uncalibrated", {"name": "spread", "plugin": "spread"}]
    scaling = {"samples": 8, "targets": [0.9, 0.99], "levels": [0.1, 0.9]}
    planned = plan(**one, calibrators=spread, strategies=beams, scaling=scaling)
    cells = [
        (cell.strategy, cell.labels.calibrator, cell.target, cell.level)
        for cell in planned.cells
        if cell.leaderboard == "scaling"
    ]
    found = list(planned.jobs_of(SearchParameters))
    assert len({job.key for job in found}) == len(found)
    return cells, len(found)


def test_searches_that_rank_by_the_prm_share_one_baseline() -> None:
    cells, run = searches("original")
    # Two targets, with one level of the point estimate and two of the quantiles.
    assert [cell for cell in cells if cell[0] == BEAMS[0]] == [(BEAMS[0], "", None, None)]
    assert len(cells) == run == 1 + 2 * 2 * (1 + 2)


def test_searches_that_rank_by_calibrated_rewards_have_a_baseline_for_each_calibrator() -> None:
    """The median ranks, so the baseline has no level and no target."""
    cells, run = searches("calibrated")
    fixed = [cell for cell in cells if cell[0] == BEAMS[0]]
    assert fixed == [(BEAMS[0], calibrator, None, None) for calibrator in ("uncalibrated", "spread")]
    assert len(cells) == run == 2 + 2 * 2 * (1 + 2)
    cells, run = searches("calibrated", calibrators=["spread"])
    assert len(cells) == run == 1 + 2 * 2 * 2


@pytest.mark.parametrize("rank", ["original", "calibrated"])
def test_a_search_is_measured_against_the_fixed_width_of_its_own_ranking(rank: str) -> None:
    beams = [{"name": name, "arguments": {"rank": rank}} for name in BEAMS]
    planned = plan(calibrators=["uncalibrated", "isotonic"], strategies=beams)
    searches = {job.shards[0].ref: job.shards[0].parameters for job in planned.jobs_of(SearchParameters)}
    searched = {
        job.shards[0].ref: searches[job.shards[0].inputs["search"][0]]
        for job in planned.jobs_of(GradedSearchParameters)
    }
    for cell in planned.cells:
        if cell.leaderboard == "scaling":
            (shard,) = cell.job.shards
            own, fixed = (searched[shard.inputs[role][0]] for role in ("search", "fixed"))
            assert (fixed.strategy.plugin, fixed.target, fixed.level) == (BEAMS[0], None, None)
            assert fixed.strategy.build(strategies).arguments == own.strategy.build(strategies).arguments
            assert fixed.calibrator == (own.calibrator if rank == "calibrated" else None)


def test_adding_a_strategy_generates_and_scores_nothing() -> None:
    before = plan(strategies=["pass@1", "best-of-n"])
    after = plan(strategies=["pass@1", "best-of-n", "weighted best-of-n"])
    assert {ref.kind for ref in refs(after) - refs(before)} == {"strategy"}


def test_a_strategy_can_be_kept_to_some_calibrators() -> None:
    planned = plan(strategies=[{"name": "best-of-n + IAS", "calibrators": ["isotonic"]}])
    assert {cell.labels.calibrator for cell in planned.cells if cell.strategy} == {"isotonic"}
    with pytest.raises(ValueError, match=r"names the calibrator 'isotone', which the grid does not have"):
        plan(strategies=[{"name": "best-of-n + IAS", "calibrators": ["isotone"]}])


def test_a_strategy_can_be_kept_to_some_prms() -> None:
    (prm,) = data()["prms"]
    prms = [{**prm, "name": name} for name in ("first", "second")]
    planned = plan(prms=prms, strategies=["pass@1", "majority vote", {"name": "best-of-n", "prms": ["second"]}])
    found = {(cell.strategy, cell.labels.prm) for cell in planned.cells if cell.strategy}
    assert found == {("pass@1", ""), ("majority vote", ""), ("best-of-n", "second")}
    with pytest.raises(ValueError, match=r"names the PRM 'third', which the grid does not have"):
        plan(prms=prms, strategies=[{"name": "best-of-n", "prms": ["third"]}])


def test_a_strategy_can_be_kept_to_some_data_sets_in_several_entries() -> None:
    (prm,) = data()["prms"]
    prms = [{**prm, "name": name} for name in ("first", "second")]
    entries = [
        {"name": "best-of-n", "prms": ["first"], "datasets": ["long"]},
        {"name": "best-of-n", "prms": ["first", "second"], "datasets": ["synthetic-questions"]},
        {"name": "best-of-n", "datasets": ["synthetic-questions"]},
    ]
    planned = plan(prms=prms, strategies=entries)
    found = [(cell.labels.prm, cell.labels.dataset) for cell in planned.cells if cell.strategy]
    assert sorted(set(found)) == [
        ("first", "long"),
        ("first", "synthetic-questions"),
        ("second", "synthetic-questions"),
    ]
    assert len(found) == 2 * len(set(found))  # once for each LLM
    assert [each.name for each in planned.plugins["strategy"]] == ["best-of-n"]
    with pytest.raises(ValueError, match=r"names the data set 'short', which the grid does not have"):
        plan(strategies=[{"name": "best-of-n", "datasets": ["short"]}])


def test_a_calibrator_can_be_kept_to_some_llms_and_prms() -> None:
    (prm,) = data()["prms"]
    prms = [{**prm, "name": name} for name in ("first", "second")]
    planned = plan(
        prms=prms,
        calibrators=[
            "uncalibrated",
            {"name": "isotonic", "prms": ["second"]},
            {"name": "histogram", "llms": ["strong"], "prms": ["first"]},
        ],
    )
    everywhere = {(llm, prm, "uncalibrated") for llm in ("weak", "strong") for prm in ("first", "second")}
    expected = everywhere | {
        ("weak", "second", "isotonic"),
        ("strong", "second", "isotonic"),
        ("strong", "first", "histogram"),
    }
    for leaderboard in ("calibration", "scaling"):
        labels = [cell.labels for cell in planned.cells if cell.leaderboard == leaderboard]
        assert {(each.llm, each.prm, each.calibrator) for each in labels if each.calibrator} == expected
    assert len(planned.jobs_of(FitParameters)) == len(expected)
    for restriction, kind in (({"prms": ["third"]}, "PRM 'third'"), ({"llms": ["tiny"]}, "LLM 'tiny'")):
        with pytest.raises(ValueError, match=rf"the calibrator 'isotonic' names the {kind}, which the grid"):
            plan(calibrators=[{"name": "isotonic", **restriction}])


def test_a_search_needs_steps_that_end_at_blank_lines() -> None:
    llm = {"name": "whole", "plugin": "thinking-llm", "arguments": {"splitting": "after-think"}}
    with pytest.raises(GridError, match="the LLM 'whole' has another 'splitting'"):
        plan(llms=[llm], strategies=["beam search"])
