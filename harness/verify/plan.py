"""The checks of a plan: its keys, what they are made of, its questions, and the split between test and calibration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from typing import Any

from prmcal.db.text.formats import counted
from prmcal.errors import PrmcalError
from prmcal.harness.jobs.job import Shard, job_key, shard_key
from prmcal.harness.jobs.parameters import (
    FitParameters,
    MeasuringParameters,
    Parameters,
    PluginReference,
    QuestionSlice,
)
from prmcal.harness.planning.plan import PlannedQuestions
from prmcal.harness.share.verify_record import Check
from prmcal.harness.storage.store import content_key, seed_from_key
from prmcal.harness.verify.subject import Flaw, Subject
from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.dataset import Dataset, FollowedUpDataset, content_hash
from prmcal.registry.messages import excerpt, shown
from prmcal.registry.plugins import datasets

Place = tuple[str, str]
"""A data set by its name in the grid, and a split."""

_KEYED: dict[str, tuple[str, ...]] = {
    "rollout": ("llm", "trajectories", "sampling", "seed", "data"),
    "success": ("llm", "trajectories", "follow_ups", "sampling", "seed"),
    "imported": ("trajectories", "follow_ups"),
    "score": ("prm",),
    "hidden": ("prm", "measured"),
    "fit": ("calibrator", "measured", "terminal"),
    "calibrated": ("calibrator", "measured"),
    "search": ("llm", "prm", "strategy", "sampling", "target", "level", "seed", "data"),
    "calibration_metrics": ("bins", "terminal", "metrics", "bootstrap", "data"),
    "strategy": ("samples", "target", "level", "strategy", "bootstrap", "data"),
    "league": ("samples", "level", "strategy", "bootstrap", "data"),
    "curves": ("samples", "bootstrap", "data"),
    "search_results": ("bootstrap", "data"),
}
"""The decisions that the key of each kind of shard is made of, at least."""


def check_plan(subject: Subject) -> Iterator[Check]:
    """Check all that can be seen in the plan alone, and in the data sets on this machine."""
    n = len(subject.plan.shards())
    yield subject.checked("consistent", "keys", n, _key_flaws(subject), f"All {n:,} keys hash to themselves.")
    passed = f"The parameters, plugins and seeds of {n:,} shards are those in their keys."
    yield subject.checked("consistent", "what keys are made of", n, _identity_flaws(subject), passed)
    yield from _check_questions(subject)
    yield _check_disjoint(subject)


# Keys, and what they are made of


def _key_flaws(subject: Subject) -> Iterator[Flaw]:
    for shard in subject.plan.shards():
        if shard_key(shard.ref.kind, shard.version, shard.identity, shard.inputs) != shard.ref.key:
            yield Flaw(
                f"The key {shard.ref.kind}/{shard.ref.key} is not the hash of its version, identity and inputs",
                (shard.ref,),
            )
    for job in subject.plan.jobs:
        if job_key(job.refs) != job.key:
            yield Flaw(f"The key of the job {job} is not the hash of its shards", job.refs)
        sources = {ref for source in job.inputs for ref in source.refs}
        for shard in job.shards:
            read = {ref for refs in shard.inputs.values() for ref in refs}
            if not read <= sources or (isinstance(shard.parameters, MeasuringParameters) and read != sources):
                yield Flaw(f"{job}: it reads other artifacts than those of its inputs", (shard.ref,))
    for cell in subject.plan.cells:
        if cell.labels != cell.job.labels:
            yield Flaw(f"The cell {cell.cell_id} shows the job of {cell.job.labels}", cells=(cell.cell_id,))


def _identity_flaws(subject: Subject) -> Iterator[Flaw]:
    """Compare the parameters, which the functions of jobs read, with the identity, which the key is made of."""
    plugins = {(kind, each.name): each.identity for kind, own in subject.plan.plugins.items() for each in own}
    graders = {(each.name, each.split): each.grader_version for each in subject.plan.datasets}
    for shard in subject.plan.shards():
        data, keyed = shard.parameters.data, decisions(shard)
        said = {**_fields(shard.parameters), "seed": subject.record.grid.get("seed")}
        wrong = [
            (name, said.get(name), keyed.get(name))
            for name in _KEYED[shard.ref.kind]
            if name != "data" and (name not in keyed or not _agree(said.get(name), keyed[name]))
        ]
        for kind, reference, identity in keyed_plugins(shard):
            planned = plugins.get((kind, reference.name), identity)
            if planned != identity or not _agree(reference, identity):
                wrong.append((kind, planned, identity))
        if "data" in _KEYED[shard.ref.kind]:
            questions = keyed.get("data", {})
            grader = graders.get((data.dataset.name, data.split))
            if questions.get("grader", [None])[0] != grader:
                wrong.append(("the version of the grader", grader, questions.get("grader")))
            follows = seed_from_key(content_key([questions.get("questions")]))
            if (
                isinstance(shard.parameters, MeasuringParameters)
                and shard.parameters.bootstrap.seed != follows
            ):
                wrong.append(("the seed of the bootstrap", shard.parameters.bootstrap.seed, follows))
        for name, value, decided in wrong:
            yield Flaw(
                f"{subject.plan.job_of(shard.ref)}: the plan says {name} = {shown(value)}, and the key was made with "
                f"{shown(decided)}",
                (shard.ref,),
            )


def decisions(shard: Shard[Parameters]) -> dict[str, Any]:
    """Return the identity of a shard, in which the parameters of a measurement stand beside the rest."""
    return {**shard.identity, **shard.identity.get("parameters", {})}


def keyed_plugins(shard: Shard[Parameters]) -> Iterator[tuple[str, PluginReference, Mapping[str, Any]]]:
    """Yield the kind, the reference and the identity of the plugins that the key of a shard is made of."""
    keyed = decisions(shard)
    for name, value in _fields(shard.parameters).items():
        if isinstance(value, PluginReference) and name in keyed:
            yield name, value, keyed[name]
    metrics = dict(keyed.get("metrics", []))
    for reference in getattr(shard.parameters, "metrics", ()):
        yield "metric", reference, metrics.get(reference.name, {})


def _fields(parameters: Parameters) -> dict[str, Any]:
    assert is_dataclass(parameters)
    found = {each.name: getattr(parameters, each.name) for each in fields(parameters)}
    return found | ({"measured": found["trajectories"].stop} if "trajectories" in found else {})


def _agree(said: Any, keyed: Any) -> bool:
    """Return whether a field of parameters is what an identity says."""
    match said:
        case PluginReference():
            arguments = keyed.get("arguments", {})
            own = {name: value for name, value in said.arguments.items() if name in arguments}
            same_plugin = keyed.get("plugin", said.plugin) == said.plugin
            return bool(same_plugin and _plain(own) == {name: arguments[name] for name in own})
        case range():
            return bool(keyed == [said.start, said.stop])
        case tuple() if said and isinstance(said[0], PluginReference):
            return [each.name for each in said] == [name for name, _ in keyed]
        case _:
            return bool(_plain(asdict(said) if is_dataclass(said) else said) == keyed)  # type: ignore[arg-type]


def _plain(value: Any) -> Any:
    """Return a value as JSON reads it."""
    return json.loads(json.dumps(value))


# Questions


def known_questions(subject: Subject) -> tuple[dict[Place, tuple[Question, ...]], dict[Place, str]]:
    """Return the questions of the plan with their texts and answers, and why they are not known.

    They are those of the plan if it has their texts. Otherwise they are read from the data set on this machine.
    """
    known: dict[Place, tuple[Question, ...]] = {}
    unknown: dict[Place, str] = {}
    for planned in subject.plan.datasets:
        place = planned.name, planned.split
        found = planned.questions if _has_texts(planned) else _of_dataset(subject, planned)
        if isinstance(found, str):
            unknown[place] = found
        elif [each.id for each in found] != [each.id for each in planned.questions]:
            unknown[place] = "the data set on this machine has other questions"
        else:
            known[place] = found
    return known, unknown


def _check_questions(subject: Subject) -> Iterator[Check]:
    """Check the questions of each split against their hashes in the keys, and against the data set on this machine."""
    hashed = _slices(subject)
    flaws: list[Flaw] = []
    n = 0
    for planned in subject.plan.datasets:
        place = planned.name, planned.split
        cells = _cells_of(subject, place)
        ranges = {range(len(planned.questions)): {planned.content_hash}} | hashed.get(place, {})
        if len({each.id for each in planned.questions}) < len(planned.questions):
            flaws.append(Flaw(f"{'/'.join(place)} has two questions with the same id", cells=cells))
        sources = {"in the plan": planned.questions} if _has_texts(planned) else {}
        here = _of_dataset(subject, planned)
        if isinstance(here, str):
            name = f"questions of the data sets ({'/'.join(place)})"
            yield Check("consistent", name, True, 0, f"Not checked: {here}")
        else:
            sources["on this machine"] = here
        n += len(planned.questions) if sources else 0
        for where, questions in sources.items():
            wrong = [
                part
                for part, own in ranges.items()
                if own != {content_hash(questions[part.start : part.stop])}
            ]
            if wrong or _without_texts(questions) != _without_texts(planned.questions):
                flaws.append(
                    Flaw(f"The questions of {'/'.join(place)} {where} are not those in the keys", cells=cells)
                )
    passed = "They match their hashes in the keys." if n else "None could be compared."
    yield subject.checked("consistent", "questions of the data sets", n, flaws, passed)


def _check_disjoint(subject: Subject) -> Check:
    """Check that no question that cells are tested on is among those that calibrators are fitted to.

    They are compared by their ids within a split, and by their texts where these are known.
    """
    known, unknown = known_questions(subject)
    fits = subject.plan.jobs_of(FitParameters)
    fitted = {(job.labels.dataset, job.labels.split) for job in fits}
    tested = {(cell.labels.dataset, cell.labels.split) for cell in subject.plan.cells}
    planned = {(each.name, each.split): each for each in subject.plan.datasets}
    flaws = [
        Flaw(f"{job}: it reads questions of {'/'.join(place)}, on which cells are tested", job.refs)
        for job in fits
        for place in sorted(
            {(each.labels.dataset, each.labels.split) for each in (job, *job.inputs)} & tested
        )
    ]
    n = 0
    for test in sorted(tested & planned.keys()):
        for calibration in sorted(fitted & planned.keys() - {test}):
            n += len(planned[test].questions)
            texts = {each.text for each in known.get(calibration, ())}
            shared = [each.id for each in known.get(test, ()) if each.text in texts]
            if _same_data(subject, test, calibration):
                ids = {each.id for each in planned[calibration].questions}
                shared += [each.id for each in planned[test].questions if each.id in ids]
            if shared:
                count = counted(len(set(shared)), "test question")
                message = (
                    f"The calibration questions of {'/'.join(calibration)} have {count} of {'/'.join(test)}"
                )
                flaws.append(
                    Flaw(f"{message}, such as '{excerpt(shared[0], 60)}'", cells=_cells_of(subject, test))
                )
    blind = sorted("/".join(each) for each in (fitted | tested) & unknown.keys())
    how = f"; only by their ids for {', '.join(blind)}, whose texts are not known here" if blind else ""
    passed = f"None of {counted(n, 'test question')} is a calibration question{how}."
    return subject.checked("consistent", "test and calibration questions", n, flaws, passed)


def _same_data(subject: Subject, one: Place, other: Place) -> bool:
    """Return whether two places are one split of one data set. Ids may be numbers within a split."""
    plugins = {each.name: each.reference.plugin for each in subject.plan.plugins["dataset"]}
    return one[1] == other[1] and one[0] in plugins and plugins[one[0]] == plugins.get(other[0])


def _slices(subject: Subject) -> dict[Place, dict[range, set[str]]]:
    """Return the hashes that keys contain of each slice of questions."""
    found: dict[Place, dict[range, set[str]]] = {}
    for shard in subject.plan.shards():
        data: QuestionSlice = shard.parameters.data
        keyed = shard.identity.get("data")
        if keyed is not None:
            place = data.dataset.name, data.split
            found.setdefault(place, {}).setdefault(data.questions, set()).add(keyed["questions"])
    return found


def _of_dataset(subject: Subject, planned: PlannedQuestions) -> tuple[Question, ...] | str:
    """Return the questions of a split from the data set on this machine, or why they cannot be read.

    A data set that is a file is not read for a bundle: its path is the submitter's.
    """
    references = {each.name: each.reference for each in subject.plan.plugins["dataset"]}
    reference = references.get(planned.name)
    if reference is None:
        return "the plan does not say which data set it is."
    texts = [value for value in reference.arguments.values() if isinstance(value, str)]
    if subject.submission and any(set(text) & set("/\\.") for text in texts):
        return "its questions come from a file of the submitter."
    try:
        built: Dataset = reference.build(datasets)
        if isinstance(built, FollowedUpDataset):
            return "its questions come with published success rates, which are not on this machine."
        if built.absent_size(planned.split) is not None:
            return "the data set is not on this machine."
        return tuple(built.questions(planned.split, len(planned.questions)))
    except PrmcalError as error:
        return excerpt(str(error), 200)
    except Exception as error:  # of a plugin
        return f"the data set could not be read ({type(error).__name__})."


def _cells_of(subject: Subject, place: Place) -> tuple[str, ...]:
    """Return the cells that are tested on a split, and all cells for a split that calibrators are fitted to."""
    own = [cell.cell_id for cell in subject.plan.cells if (cell.labels.dataset, cell.labels.split) == place]
    return tuple(own) or tuple(cell.cell_id for cell in subject.plan.cells)


def _has_texts(planned: PlannedQuestions) -> bool:
    return all(each.text is not None and each.answer is not None for each in planned.questions)


def _without_texts(questions: Sequence[Question]) -> list[Question]:
    return [replace(each, text="", answer="") for each in questions]
