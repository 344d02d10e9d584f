"""Plans: what is shared, what is reused when a grid grows, and what changes a key."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from prmcal.errors import GridError
from prmcal.harness.jobs.parameters import (
    CalibratedParameters,
    FitParameters,
    HiddenParameters,
    RolloutParameters,
)
from prmcal.harness.jobs.rollout import chosen_prefixes
from prmcal.harness.planning.gpu_hours import completions
from prmcal.harness.planning.plan import Plan
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.planning.reading import read_grid
from prmcal.harness.storage.store import ArtifactRef
from prmcal.registry.plugins import llms
from tests.conftest import ROOT
from tests.harness.planning.synthetic_plans import data, plan, refs


def test_every_cell_of_the_grid_is_there_once() -> None:
    planned = plan()
    ids = [cell.cell_id for cell in planned.cells]
    assert len(ids) == len(set(ids))
    calibration = [cell for cell in planned.cells if cell.leaderboard == "calibration"]
    assert len(calibration) == 2 * 1 * 4 * 2
    scaling = [cell for cell in planned.cells if cell.leaderboard == "scaling"]
    assert len(scaling) == 2 * 2 * (1 + 1 + 4 * 2)  # pass@1, best-of-n, calibrators x targets


def test_the_same_grid_gives_the_same_keys() -> None:
    assert refs(plan()) == refs(plan())


def test_adding_a_calibrator_costs_no_generation_and_no_scoring() -> None:
    before = plan(calibrators=["uncalibrated", "temperature"])
    after = plan(calibrators=["uncalibrated", "temperature", "isotonic"])
    added = refs(after) - refs(before)
    assert {ref.kind for ref in added} == {"fit", "calibrated", "calibration_metrics", "strategy", "curves"}


def test_only_scores_that_are_read_are_computed() -> None:
    every = {
        "scaling": {"samples": 16, "targets": [0.9]},
        "measurement": {"measured": 8},
        "shards": {"questions": 4},
    }
    whole = plan(**every)
    measured = plan(**every, strategies=["pass@1"])
    bare = plan(**every, strategies=["pass@1"], calibrators=["uncalibrated"])
    ranked = plan(**every, strategies=["best-of-n"], calibrators=["uncalibrated"])
    assert refs(ranked, "score") == refs(whole, "score")
    assert refs(measured, "rollout", "success", "calibration_metrics") <= refs(whole)
    assert refs(bare, "score") < refs(measured, "score") < refs(whole, "score")
    assert not refs(measured, "curves")
    read = {ref for job in bare.jobs for shard in job.shards for refs in shard.inputs.values() for ref in refs}
    assert refs(bare, "score") <= read
    stops = {shard.parameters.trajectories.stop for shard in measured.shards() if shard.ref.kind == "score"}  # type: ignore[attr-defined]
    assert stops == {4, 8}  # of the calibration questions, and the measured ones of the test questions
    assert {job.key for job in measured.jobs} >= {each.key for job in measured.jobs for each in job.inputs}
    bare.part(bare.cells_with({"strategy": ["pass@1"]}))


def test_an_engine_that_wants_many_texts_gets_large_shards_after_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def blocks(**shards: int) -> set[tuple[int, int]]:
        planned = plan(scaling={"samples": 64, "targets": [0.9]}, shards={"questions": 50, **shards})
        found = [each.parameters for each in planned.shards() if isinstance(each.parameters, RolloutParameters)]
        return {(each.trajectories.start, each.trajectories.stop) for each in found if each.data.split == "test"}

    assert blocks() == {(start, start + 8) for start in range(0, 64, 8)}
    monkeypatch.setattr(llms.get("synthetic-llm"), "trajectories_per_shard", 32)
    assert blocks() == {(0, 8), (8, 40), (40, 64)}
    assert blocks(trajectories=16) == {(start, start + 16) for start in range(0, 64, 16)}


def test_growing_the_pool_reuses_the_first_samples() -> None:
    small = plan(scaling={"samples": 8, "targets": [0.9]})
    large = plan(scaling={"samples": 16, "targets": [0.9]})
    assert refs(small, "rollout", "score", "success") < refs(large, "rollout", "score", "success")


def test_growing_the_questions_reuses_the_first_slices() -> None:
    twenty = [{"name": "synthetic-questions", "questions": 20}]
    forty = [{"name": "synthetic-questions", "questions": 40}]
    assert refs(plan(datasets=twenty), "rollout") < refs(plan(datasets=forty), "rollout")


@pytest.mark.parametrize(
    ("changes", "kind", "split"),
    [
        ({"seed": 4}, "rollout", "test"),
        ({"shards": {"questions": 19}}, "rollout", "test"),
        (
            {"llms": [{"name": "weak", "plugin": "synthetic-llm", "arguments": {"skill": 0.71}}]},
            "rollout",
            "test",
        ),
        *(
            ({"sampling": {name: value}}, kind, "test")
            for name, value in {"temperature": 0.5, "top_p": 0.9, "max_tokens": 99, "stop": ["x"]}.items()
            for kind in ("rollout", "follow_ups", "search")
        ),
        *(
            ({part: {name: value}}, "follow_ups", split)
            for name, value in {"most_prefixes": 3, "first_prefixes": 2, "prefer_answered": 2.0}.items()
            for part, split in (("calibration", "calibration"), ("measurement", "test"))
        ),
        ({"calibration": {"prefer_answered": 2.0}}, "rollout", "calibration"),
        ({"calibration": {"terminal": True}}, "fit", "calibration"),
        ({"measurement": {"terminal": True}}, "calibration_metrics", "test"),
        ({"measurement": {"bins": 5}}, "calibration_metrics", "test"),
        ({"measurement": {"replicates": 300}}, "calibration_metrics", "test"),
        ({"scaling": {"targets": [0.5]}}, "search", "test"),
        ({"scaling": {"levels": [0.3]}}, "search", "test"),
    ],
)
def test_whatever_decides_an_output_changes_its_key(changes: dict[str, Any], kind: str, split: str) -> None:
    search = {"name": "search", "plugin": "beam search + IAS-of-K"}
    small = {**data(), "llms": data()["llms"][:1], "calibrators": ["any-spread"], "strategies": [search]}
    changed = {
        name: {**small[name], **part} if isinstance(part, dict) and name in small else part
        for name, part in changes.items()
    }

    def keys(grid: dict[str, Any]) -> set[ArtifactRef]:
        jobs = plan(**grid).jobs
        # The baseline of a search reads no calibrator, and has no target and no level.
        some = [job for job in jobs if (job.kind, job.labels.split) == (kind, split)]
        return {ref for job in some if kind != "search" or job.inputs for ref in job.refs}

    before, after = keys(small), keys(small | changed)
    assert before and after and not before & after


def test_a_label_is_not_part_of_a_key() -> None:
    renamed = [{**each, "name": each["name"] + "-2"} for each in data()["llms"]]
    assert refs(plan(llms=renamed)) == refs(plan())


def test_calibrating_on_test_questions_is_refused() -> None:
    with pytest.raises(GridError, match="that are also calibration questions"):
        plan(calibration={"name": "synthetic-questions", "split": "test", "questions": 5})


def test_a_limit_only_ever_shrinks() -> None:
    full = [len(each.questions) for each in plan().datasets]
    assert [len(each.questions) for each in plan(limit=35).datasets] == [min(35, count) for count in full]


def test_a_split_that_does_not_exist() -> None:
    with pytest.raises(GridError, match=r"has no split 'validation'\. It has: calibration, test"):
        plan(datasets=[{"name": "synthetic-questions", "split": "validation"}])


def levels_of(calibrators: list[str], levels: list[float]) -> tuple[set[ArtifactRef], set[float | None]]:
    """The jobs that predict rewards, and the levels of the cells of IAS."""
    planned = plan(calibrators=calibrators, scaling={"samples": 8, "targets": [0.9], "levels": levels})
    cells = [cell.level for cell in planned.cells if cell.strategy == "best-of-n + IAS"]
    return refs(planned, "calibrated"), set(cells)


def test_a_calibrator_of_any_level_is_asked_for_the_levels_of_the_grid() -> None:
    own, _ = levels_of(["any-spread"], [0.1])
    again, cells = levels_of(["any-spread"], [0.9, 0.1])
    assert again == own, "its own levels are always predicted, so they are not in the key"
    assert cells == {0.1, 0.9}
    other, cells = levels_of(["any-spread"], [0.25, 0.05, 0.1])
    assert other.isdisjoint(own) and cells == {0.05, 0.1, 0.25}
    assert levels_of(["any-spread"], [0.05, 0.25])[0] == other


def test_other_calibrators_have_the_same_keys_at_all_levels() -> None:
    assert levels_of(["isotonic"], [0.25, 0.05]) == (levels_of(["isotonic"], [0.1])[0], {0.5})
    with pytest.raises(GridError, match=r"beta = 0.25, which the calibrator 'spread' .* that predict any level"):
        levels_of(["spread"], [0.1, 0.25])
    with pytest.raises(GridError, match=r"beta = 0.25, which the calibrator 'conformal' "):
        plan(
            calibrators=[{"name": "conformal", "arguments": {"calibrator": "isotonic"}}],
            scaling={"samples": 8, "targets": [0.9], "levels": [0.25]},
        )


def test_hidden_states_are_computed_only_where_a_calibrator_reads_them() -> None:
    grid = read_grid(ROOT / "grids" / "paper.yaml")
    stored = build_plan(grid.model_copy(update={"hidden": "stored"}), stand_ins=True)
    assert {job.labels.prm for job in stored.jobs_of(HiddenParameters)} == {"Qwen2.5-Math-PRM-7B"}
    computed = build_plan(grid, stand_ins=True)
    assert not computed.jobs_of(HiddenParameters)
    kinds = {FitParameters.kind, CalibratedParameters.kind}
    reading = [job for job in computed.jobs if job.kind in kinds and job.labels.calibrator == "ats"]
    assert {job.shards[0].resource for job in reading} == {"prm:Qwen2.5-Math-PRM-7B"}


def test_a_replayed_llm_is_asked_for_all_samples_at_once(tmp_path: Path) -> None:
    recording = tmp_path / "recording.jsonl"
    recording.write_text('{"question": "1+1?", "solutions": ["2"]}')
    replayed = [{"name": "old", "plugin": "recorded", "arguments": {"path": str(recording)}}]
    most = data()["scaling"]["samples"]
    with pytest.raises(GridError, match=rf"'old' gives the same completions .*'shards.trajectories' to {most} or more"):
        plan(llms=replayed, shards={"trajectories": most - 1})
    assert plan(llms=replayed, shards={"trajectories": most}).cells


def test_a_limit_of_prefixes_is_in_the_keys_of_success_rates_only_if_it_is_set() -> None:
    def limited(most: int | None) -> Plan:
        chosen = {} if most is None else {"most_prefixes": most}
        calibration = {**data()["calibration"], **chosen}
        return plan(calibration=calibration, measurement={**data()["measurement"], **chosen})

    assert refs(limited(None)) == refs(plan())
    few = limited(3)
    assert refs(few, "rollout", "score") == refs(plan(), "rollout", "score")
    assert not refs(few, "success", "fit") & refs(plan(), "success", "fit")
    assert not refs(few, "success") & refs(limited(4), "success")
    with pytest.raises(ValidationError, match="greater than or equal to 2"):
        limited(1)


def test_labels_of_the_authors_are_in_the_keys_only_if_they_are_set() -> None:
    def labelled(part: str, **chosen: Any) -> Plan:
        return plan(**{part: {**data()[part], **chosen}})

    for part in ("calibration", "measurement"):
        assert refs(labelled(part, first_prefixes=None, prefer_answered=None)) == refs(plan())
        few, preferred = labelled(part, first_prefixes=20), labelled(part, prefer_answered=1.25)
        assert refs(few, "rollout", "score") == refs(plan(), "rollout", "score")
        assert refs(few, "success") - refs(plan(), "success")
        assert refs(preferred, "follow_ups") - refs(plan(), "follow_ups")
        # The samples of strategies are never chosen.
        changed = refs(preferred, "rollout") - refs(plan(), "rollout")
        assert bool(changed) == (part == "calibration")


def test_a_prm_that_ranks_otherwise_scores_the_measured_trajectories_twice() -> None:
    entry: dict[str, Any] = data()["prms"][0]
    entry = {"name": entry, "plugin": entry} if isinstance(entry, str) else entry
    usual = plan(prms=[entry])
    assert refs(plan(prms=[{**entry, "ranking": {}}])) == refs(usual)
    ranked = plan(prms=[{**entry, "ranking": {"skill": 0.5}}])
    assert refs(ranked, "fit", "calibration_metrics") == refs(usual, "fit", "calibration_metrics")
    assert not refs(ranked, "curves") & refs(usual, "curves")
    scores = refs(usual, "score")
    kept = scores & refs(ranked, "score")
    assert 0 < len(kept) < len(scores) < len(refs(ranked, "score"))


def test_a_limit_of_prefixes_counts_in_the_costs() -> None:
    def samples(**changes: Any) -> float:
        planned = plan(**changes)
        return sum(completions(each.parameters) for each in planned.shards() if each.ref.kind == "follow_ups")

    changes: dict[str, Any] = {"sampling": {"max_tokens": 30_000}}
    every = samples(**changes)
    changes["measurement"] = {**data()["measurement"], "most_prefixes": 20}
    changes["calibration"] = {**data()["calibration"], "most_prefixes": 20}
    # A trajectory of 12,000 tokens has 201 prefixes.
    assert samples(**changes) / every == pytest.approx(20 / 201)


@pytest.mark.parametrize(
    ("steps", "most", "chosen"),
    [
        (0, 5, [0]),
        (4, 5, [0, 1, 2, 3, 4]),
        (4, None, [0, 1, 2, 3, 4]),
        (5, 2, [0, 5]),
        (10, 3, [0, 5, 10]),
        (10, 4, [0, 3, 7, 10]),
    ],
)
def test_chosen_prefixes_have_equal_distances_and_both_ends(steps: int, most: int | None, chosen: list[int]) -> None:
    assert chosen_prefixes(steps, most) == chosen
    for limit in range(2, 40):
        found = chosen_prefixes(37, limit)
        gaps = {after - before for before, after in pairwise(found)}
        assert (found[0], found[-1], len(found)) == (0, 37, min(limit, 38))
        assert max(gaps) - min(gaps) <= 1 and min(gaps) > 0


def test_the_first_prefixes_are_those_before_the_whole_trajectory() -> None:
    assert [chosen_prefixes(steps, None, 3) for steps in (0, 1, 2, 3, 9)] == [
        [0], [0], [0, 1], [0, 1, 2], [0, 1, 2]
    ]  # fmt: skip
