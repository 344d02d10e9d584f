"""The subject of a verification, its flaws, and the checks of its plan: keys, questions, and the split."""

import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prmcal.db.metrics import Tier
from prmcal.db.text.formats import counted
from prmcal.harness.execution.ending import read_failures
from prmcal.harness.jobs.job import Job, Shard, job_key, shard_key
from prmcal.harness.jobs.parameters import (
    FitParameters,
    HiddenParameters,
    MeasuringParameters,
    Parameters,
    PluginReference,
    plain_data,
)
from prmcal.harness.planning.plan import PlannedQuestions, with_inputs
from prmcal.harness.planning.saved import read_plan
from prmcal.harness.share.bundle import SUBMISSION_FILE, Submission
from prmcal.harness.share.checks import check_unpacked, unpack
from prmcal.harness.share.submissions import Check
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.store import ArtifactRef, Store, content_key, seed_from_key
from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.dataset import Dataset, FollowedUpDataset, content_hash
from prmcal.registry.messages import excerpt, message_of, shown
from prmcal.registry.plugins import datasets

_SHOWN = 3
"""Findings that the message of a check has."""


@dataclass(frozen=True, slots=True)
class Flaw:
    """Something that is wrong."""

    message: str
    """A sentence without a full stop."""
    refs: tuple[ArtifactRef, ...] = ()
    """The artifacts that it concerns, and with them the cells that they decide."""
    cells: tuple[str, ...] = ()
    """The ids of further cells that it concerns."""


class Subject:
    """A folder whose results are verified, and what is in it.

    It is that of a run, or an unpacked bundle, whose files match its list. `submission` is what a bundle says of
    itself; None for a run. `manifests` are those of the artifacts of the plan whose files match them, and `failed` has
    the keys of shards that are said to have failed.
    """

    def __init__(self, directory: Path, submission: Submission | None = None) -> None:
        self.submission = submission
        self.record = RunFolder(directory).record()
        self.plan = read_plan(directory, self.record.grid)
        self.store = Store(directory)
        self.manifests = self.store.manifests(shard.ref for shard in self.plan.shards())
        self.failed = set(read_failures(directory))

    def jobs_here(self, kind: type[Parameters]) -> list[Job[Any]]:
        """Return the jobs of a kind whose artifacts are all here, each once."""
        jobs = {job.key: job for job in self.plan.jobs_of(kind)}
        return [job for job in jobs.values() if all(ref in self.manifests for ref in job.refs)]

    def shards_here(self, kind: type[Parameters]) -> list[Shard[Any]]:
        """Return the shards of the jobs of a kind whose artifacts are all here."""
        return [shard for job in self.jobs_here(kind) for shard in job.shards]

    def missing(self) -> list[ArtifactRef]:
        """Return the artifacts that are absent or damaged and that no failure explains.

        Hidden states are left out of bundles, since no result is computed from them.
        """
        excused = set(self.failed)
        found = []
        for shard in self.plan.shards():
            blocked = any(ref.key in excused for refs in shard.inputs.values() for ref in refs)
            if blocked or shard.ref.key in excused:
                excused.add(shard.ref.key)
            elif shard.ref not in self.manifests and not isinstance(shard.parameters, HiddenParameters):
                found.append(shard.ref)
        return found

    def cells_behind(self, refs: Iterable[ArtifactRef]) -> tuple[str, ...]:
        """Return the ids of the cells that some artifacts decide, in the order of the plan."""
        keys = {job.key for ref in refs for job in self.plan.owners(ref)}
        return tuple(
            cell.cell_id
            for cell in self.plan.cells
            if any(job.key in keys for job in with_inputs([cell.job]))
        )

    def checked(self, tier: Tier, name: str, n: int, flaws: Iterable[Flaw], passed: str) -> Check:
        """Return a check of `n` things: failed with its first flaws, or passed with a message in sentences."""
        found = list(flaws)
        if not found:
            return Check(tier, name, True, n, passed)
        lines = list(dict.fromkeys(excerpt(each.message) for each in found))
        more = len(lines) - _SHOWN
        message = " ".join(f"{line}." for line in lines[:_SHOWN])
        if more > 0:
            message += f" There are {counted(more, 'other finding')}."
        cells = {cell for each in found for cell in each.cells}
        cells |= set(self.cells_behind({ref for each in found for ref in each.refs}))
        named = tuple(cell.cell_id for cell in self.plan.cells if cell.cell_id in cells)
        return Check(tier, name, False, n, message, named)

    def unchecked(self, tier: Tier, name: str, unknown: Mapping[ArtifactRef, str]) -> list[Check]:
        """Return a check that could not be made for some artifacts, by the reasons; none without artifacts.

        It does not pass, so their cells do not reach the tier.
        """
        if not unknown:
            return []
        first, why = next(iter(unknown.items()))
        message = (
            f"Not checked: {counted(len(unknown), 'artifact')}. {self.plan.job_of(first)}: {why.rstrip('.')}."
        )
        return [Check(tier, name, False, 0, message, self.cells_behind(unknown))]


@contextmanager
def opened(path: Path) -> Iterator[Subject]:
    """Open a bundle, an unpacked bundle or the folder of a run. A bundle is unpacked into a temporary folder.

    Raises a PrmcalError if the bundle is damaged, altered or of a newer format, or the folder has no run.
    """
    if path.is_dir():
        is_bundle = (path / SUBMISSION_FILE).exists()
        yield Subject(path, check_unpacked(path) if is_bundle else None)
        return
    with tempfile.TemporaryDirectory(prefix="prmcal-verify-") as temporary:
        folder = Path(temporary) / "bundle"
        yield Subject(folder, unpack(path, folder))


Place = tuple[str, str]
"""A data set by its name in the grid, and a split."""


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
        kind, key = shard.ref.kind, shard.ref.key
        if shard_key(kind, shard.version, shard.identity, shard.inputs) != key:
            yield Flaw(
                f"The key {kind}/{key} is not the hash of its version, identity and inputs", (shard.ref,)
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
    planned = {(kind, each.name): each.identity for kind, own in subject.plan.plugins.items() for each in own}
    graders = {(each.name, each.split): each.grader_version for each in subject.plan.datasets}
    for shard in subject.plan.shards():
        given, keyed = shard.parameters, decisions(shard)
        said = {name: plain_data(value) for name, value in vars(given).items()}
        said["seed"] = subject.record.grid.get("seed")
        said["measured"] = said.get("trajectories", [0, 0])[1]
        plugins = list(keyed_plugins(shard))
        said["metrics"] = [[each.name, own] for kind, each, own in plugins if kind == "metric"]
        said |= {kind: keyed[kind] for kind, _, _ in plugins if kind in keyed}
        pairs = [(name, said[name], keyed[name]) for name in sorted(said.keys() & keyed.keys() - {"data"})]
        for kind, reference, identity in plugins:
            pairs.append((kind, planned.get((kind, reference.name), identity), identity))
            arguments = identity.get("arguments", {})
            both = arguments.keys() & reference.arguments.keys()
            pairs.append((kind, reference.plugin, identity.get("plugin", reference.plugin)))
            pairs += [
                (f"{kind}: {name}", reference.arguments[name], arguments[name]) for name in sorted(both)
            ]
        if "data" in keyed:
            asked, data = keyed["data"], given.data
            grader = graders.get((data.dataset.name, data.split))
            pairs.append(("the version of the grader", grader, asked.get("grader", [None])[0]))
            if isinstance(given, MeasuringParameters):
                follows = seed_from_key(content_key([asked.get("questions")]))
                pairs.append(("the seed of the bootstrap", given.bootstrap.seed, follows))
        for name, value, decided in pairs:
            if plain_data(value) != decided:
                yield Flaw(
                    f"{subject.plan.job_of(shard.ref)}: the plan says {name} = {shown(value)}, and the key was made "
                    f"with {shown(decided)}",
                    (shard.ref,),
                )


def decisions(shard: Shard[Parameters]) -> dict[str, Any]:
    """Return the identity of a shard, in which the parameters of a measurement stand beside the rest."""
    return {**shard.identity, **shard.identity.get("parameters", {})}


def keyed_plugins(shard: Shard[Parameters]) -> Iterator[tuple[str, PluginReference, Mapping[str, Any]]]:
    """Yield the kind, the reference and the identity of the plugins that the key of a shard is made of."""
    keyed = decisions(shard)
    for name, value in vars(shard.parameters).items():
        if isinstance(value, PluginReference) and name in keyed:
            yield name, value, keyed[name]
    metrics = dict(keyed.get("metrics", []))
    for reference in getattr(shard.parameters, "metrics", ()):
        yield "metric", reference, metrics.get(reference.name, {})


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
    hashed: dict[Place, dict[range, set[str]]] = defaultdict(lambda: defaultdict(set))
    for shard in subject.plan.shards():
        data, keyed = shard.parameters.data, shard.identity.get("data")
        if keyed is not None:
            hashed[data.dataset.name, data.split][data.questions].add(keyed["questions"])
    flaws: list[Flaw] = []
    n = 0
    for planned in subject.plan.datasets:
        place, where = (planned.name, planned.split), f"{planned.name}/{planned.split}"
        cells = _cells_of(subject, place)
        hashed[place][range(len(planned.questions))].add(planned.content_hash)
        if len({each.id for each in planned.questions}) < len(planned.questions):
            flaws.append(Flaw(f"{where} has two questions with the same id", cells=cells))
        sources = {"in the plan": planned.questions} if _has_texts(planned) else {}
        here = _of_dataset(subject, planned)
        if isinstance(here, str):
            name = f"questions of the data sets ({where})"
            yield Check("consistent", name, True, 0, f"Not checked: {here}")
        else:
            sources["on this machine"] = here
        n += len(planned.questions) if sources else 0
        for source, found in sources.items():
            same = _without_texts(found) == _without_texts(planned.questions)
            if not same or any(
                own != {content_hash(found[part.start : part.stop])} for part, own in hashed[place].items()
            ):
                message = f"The questions of {where} {source} are not those in the keys"
                flaws.append(Flaw(message, cells=cells))
    passed = "They match their hashes in the keys." if n else "None could be compared."
    yield subject.checked("consistent", "questions of the data sets", n, flaws, passed)


def _check_disjoint(subject: Subject) -> Check:
    """Check that no question that cells are tested on is among those that calibrators are fitted to.

    They are compared by their ids within a split, and by their texts where these are known.
    """
    known, unknown = known_questions(subject)
    plan = subject.plan
    planned = {(each.name, each.split): each for each in plan.datasets}
    plugins = {each.name: each.reference.plugin for each in plan.plugins["dataset"]}
    reads = [each for job in plan.jobs_of(FitParameters) for each in (job, *job.inputs)]
    fitted = {(job.labels.dataset, job.labels.split) for job in reads}
    tested = {(cell.labels.dataset, cell.labels.split) for cell in plan.cells}
    flaws = []
    n = 0
    for test in sorted(tested & planned.keys()):
        for calibration in sorted(fitted & planned.keys()):
            n += len(planned[test].questions)
            texts = {each.text for each in known.get(calibration, ())}
            shared = {each.id for each in known.get(test, ()) if each.text in texts}
            # Ids may be numbers within a split of a data set.
            if (plugins.get(test[0]), test[1]) == (plugins.get(calibration[0]), calibration[1]):
                ids = {each.id for each in planned[calibration].questions}
                shared |= {each.id for each in planned[test].questions} & ids
            if shared:
                count = counted(len(shared), "test question")
                message = (
                    f"The calibration questions of {'/'.join(calibration)} have {count} of {'/'.join(test)}"
                )
                example = excerpt(min(shared), 60)
                flaws.append(Flaw(f"{message}, such as '{example}'", cells=_cells_of(subject, test)))
    blind = sorted("/".join(each) for each in (fitted | tested) & unknown.keys())
    how = f"; only by their ids for {', '.join(blind)}, whose texts are not known here" if blind else ""
    passed = f"None of {counted(n, 'test question')} is a calibration question{how}."
    return subject.checked("consistent", "test and calibration questions", n, flaws, passed)


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
        if isinstance(built, FollowedUpDataset) or built.absent_size(planned.split) is not None:
            return "the data set is not on this machine."
        return tuple(built.questions(planned.split, len(planned.questions)))
    except Exception as error:  # of a plugin
        return excerpt(message_of(error), 200)


def _cells_of(subject: Subject, place: Place) -> tuple[str, ...]:
    """Return the cells that are tested on a split, and all cells for a split that calibrators are fitted to."""
    own = [cell.cell_id for cell in subject.plan.cells if (cell.labels.dataset, cell.labels.split) == place]
    return tuple(own) or tuple(cell.cell_id for cell in subject.plan.cells)


def _has_texts(planned: PlannedQuestions) -> bool:
    return all(each.text is not None and each.answer is not None for each in planned.questions)


def _without_texts(questions: Sequence[Question]) -> list[Question]:
    return [replace(each, text="", answer="") for each in questions]
