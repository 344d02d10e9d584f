"""Keys: a change of anything that decides an output changes the keys of what follows from it, and no others."""

from __future__ import annotations

import dataclasses
from typing import Any, get_type_hints

import pytest

from prmcal.db.statistics.bootstrap import Bootstrap
from prmcal.harness.jobs.parameters import (
    KINDS_OF_JOBS,
    GeneratingParameters,
    GradingParameters,
    Parameters,
    PluginReference,
    QuestionSlice,
)
from prmcal.harness.planning.plan import Plan, PlannedPlugin, make_shard
from prmcal.harness.storage.store import ArtifactRef
from prmcal.registry.contracts.data import Question, Sampling
from prmcal.registry.contracts.dataset import content_hash
from tests.harness.planning.synthetic_plans import data, plan, refs

KINDS = {kind: parameters for kind, (parameters, _) in KINDS_OF_JOBS.items()}
FIELDS = [(kind, each.name) for kind, cls in KINDS.items() for each in dataclasses.fields(cls)]  # type: ignore[arg-type]
SAMPLES = ("rollout", "follow_ups", "score", "hidden", "search")
EVERYTHING: dict[str, Any] = {
    "calibrators": ["uncalibrated", "isotonic"],
    "strategies": ["best-of-n", "oracle IAS", "best-of-n + IAS", "beam search + IAS-of-K"],
    "league": True,
}


def planned_plugin(name: str, weights: str) -> PlannedPlugin[Any]:
    return PlannedPlugin(PluginReference(name, name, {}), {"weights": weights})


def values_of(name: str, annotation: Any) -> tuple[Any, Any]:
    """Two values of a field that decide different outputs."""
    text = str(annotation)
    if name == "metrics":
        return (planned_plugin("brier", "a"),), (planned_plugin("brier", "b"),)
    if "PluginReference" in text:
        return planned_plugin("same", "a"), planned_plugin("same", "b")
    if "QuestionSlice" in text:
        dataset = PluginReference("data", "data", {})
        return QuestionSlice(dataset, "test", range(4)), QuestionSlice(dataset, "test", range(5))
    if annotation is Sampling:
        return Sampling(), Sampling(top_p=0.5)
    if annotation is Bootstrap:
        return Bootstrap(10, 1), Bootstrap(10, 2)
    if "range" in text:
        return range(4), range(2, 4)
    if "tuple[float" in text:
        return (0.1,), (0.2,)
    if "float" in text:
        return 0.25, 0.5
    if "bool" in text:
        return False, True
    if "str" in text:
        return "boxed", "hashes"
    return 1, 2


def content(questions: range, references: bool) -> str:
    return f"{questions} {references}"


def key(kind: str, **changes: Any) -> ArtifactRef:
    cls = KINDS[kind]
    hints = get_type_hints(cls, include_extras=True)
    fields = {each.name: values_of(each.name, hints[each.name])[0] for each in dataclasses.fields(cls)}  # type: ignore[arg-type]
    inputs = {"input": [ArtifactRef("input", changes.pop("input", "a"))]}
    return make_shard(cls, content, inputs, **{**fields, **changes}).ref


@pytest.mark.parametrize(("kind", "name"), FIELDS)
def test_every_field_is_in_the_key(kind: str, name: str) -> None:
    hints = get_type_hints(KINDS[kind], include_extras=True)
    assert key(kind, **{name: values_of(name, hints[name])[1]}) != key(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_and_versions_are_in_the_key_and_names_are_not(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = key(kind)
    assert key(kind) == before != key(kind, input="b")
    hints = get_type_hints(KINDS[kind], include_extras=True)
    for name, hint in hints.items():
        if hint in (PluginReference, PluginReference | None):
            assert key(kind, **{name: planned_plugin("renamed", "a")}) == before
    monkeypatch.setattr(KINDS[kind], "version", KINDS[kind].version + 1)
    assert key(kind) != before


def test_only_what_grades_and_measures_depends_on_references() -> None:
    for kind, cls in KINDS.items():
        assert cls.reads_references == (kind not in (*SAMPLES, "fit", "calibrated"))
    first, other = Question("q", "1+1?", "2", 1), Question("q", "1+1?", "3", 2)
    assert content_hash([first], references=False) == content_hash([other], references=False)
    assert content_hash([first]) != content_hash([other])


def changed_kinds(before: Plan, after: Plan) -> set[str]:
    """The kinds of the jobs of which some have other keys. Searches by fitted calibrators follow from verdicts."""
    return {kind for kind in {job.kind for job in before.jobs} if refs(before, kind) != refs(after, kind)}


def following(planned: Plan, kinds: set[str]) -> set[str]:
    """The kinds of the jobs that follow from those of some kinds."""
    affected: set[Any] = set()
    for job in planned.jobs:
        if job.kind in kinds or affected & set(job.inputs):
            affected.add(job)
    return {job.kind for job in affected}


@pytest.mark.parametrize("kind", sorted({job.kind for job in plan(**EVERYTHING).jobs}))
def test_another_version_of_a_job_changes_what_follows_from_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = plan(**EVERYTHING)
    monkeypatch.setattr(KINDS[kind], "version", KINDS[kind].version + 1)
    after = plan(**EVERYTHING)
    affected = following(before, {kind})
    for old, new in zip(before.jobs, after.jobs, strict=True):
        assert old.labels == new.labels and old.kind == new.kind
        if new.kind == kind:
            assert new.key != old.key
        assert (new.key == old.key) or new.kind in affected


def test_a_changed_grader_grades_again_and_samples_and_scores_nothing() -> None:
    before = plan(**EVERYTHING)
    exact = [{"name": "exact"}]
    grid = data()
    after = plan(
        **EVERYTHING
        | {
            "datasets": [{**each, "graders": exact} for each in grid["datasets"]],
            "calibration": {**grid["calibration"], "graders": exact},
        }
    )
    assert changed_kinds(before, after) >= {"graded", "success", "graded_search", "fit", "strategy"}
    assert not changed_kinds(before, after) & {"rollout", "follow_ups", "score", "hidden"}


def test_a_changed_library_grades_again_and_samples_and_scores_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = plan(**EVERYTHING)
    monkeypatch.setattr("prmcal.registry.contracts.dataset.grader_version", lambda grading: "symbolic 3 (sympy 1.99)")
    changed = changed_kinds(before, plan(**EVERYTHING))
    assert {"graded", "success", "graded_search"} <= changed
    assert not changed & {"rollout", "follow_ups", "score", "hidden"}


def test_what_samples_knows_no_grader_and_what_grades_no_seed() -> None:
    for kind, cls in KINDS.items():
        names = {each.name for each in dataclasses.fields(cls)}  # type: ignore[arg-type]
        if issubclass(cls, GeneratingParameters):
            assert not names & {"grader", "rules"}, kind
        if issubclass(cls, GradingParameters):
            assert not names & {"sampling", "seed", "prm"}, kind
    assert all(issubclass(cls, Parameters) for cls in KINDS.values())
