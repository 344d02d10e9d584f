"""Questions: those of the plan are those of their data set, and no test question is among the calibration questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from prmcal.db.text.formats import counted
from prmcal.errors import PrmcalError
from prmcal.harness.jobs.parameters import FitParameters, PluginReference, QuestionSlice
from prmcal.harness.planning.plan import PlannedQuestions
from prmcal.harness.share.verify_record import Check
from prmcal.harness.verifying.findings import Flaw, concluded, not_made
from prmcal.harness.verifying.subject import Subject
from prmcal.registry.contracts.data import Question
from prmcal.registry.contracts.dataset import Dataset, FollowedUpDataset, content_hash
from prmcal.registry.messages import excerpt
from prmcal.registry.plugins import datasets

__all__ = ["Place", "check_disjoint", "check_questions", "known_questions"]

Place = tuple[str, str]
"""A data set by its name in the grid, and a split."""

_NAME = "questions of the data sets"
_DISJOINT = "test and calibration questions"


def known_questions(subject: Subject) -> tuple[dict[Place, tuple[Question, ...]], dict[Place, str]]:
    """Return the questions of the plan with their texts and answers, and why they are not known.

    They are those of the plan if it has their texts. Otherwise they are read from the data set, if it is on this
    machine.
    """
    known: dict[Place, tuple[Question, ...]] = {}
    unknown: dict[Place, str] = {}
    for planned in subject.plan.datasets:
        place = planned.name, planned.split
        if all(each.text is not None and each.answer is not None for each in planned.questions):
            known[place] = planned.questions
            continue
        found = _of_dataset(subject, planned)
        if isinstance(found, str):
            unknown[place] = found
        elif [each.id for each in found] == [each.id for each in planned.questions]:
            known[place] = found
        else:
            unknown[place] = "the data set on this machine has other questions"
    return known, unknown


def check_questions(subject: Subject) -> Iterator[Check]:
    """Check the questions of each split against their hashes in the keys, and against the data set on this machine."""
    hashed = _slices(subject)
    flaws: list[Flaw] = []
    n = 0
    for planned in subject.plan.datasets:
        place = planned.name, planned.split
        cells = _cells_of(subject, place)
        if len({each.id for each in planned.questions}) < len(planned.questions):
            flaws.append(Flaw(f"{_told(place)} has two questions with the same id", cells=cells))
        plain = all(each.text is not None and each.answer is not None for each in planned.questions)
        if plain:
            n += len(planned.questions)
            flaws += _hash_flaws(planned, planned.questions, hashed.get(place, {}), cells, "in the plan")
        found = _of_dataset(subject, planned)
        if isinstance(found, str):
            yield not_made("consistent", f"{_NAME} ({_told(place)})", found)
            continue
        n += 0 if plain else len(planned.questions)
        here = [replace(each, text="", answer="") for each in found]
        theirs = [replace(each, text="", answer="") for each in planned.questions]
        if here != theirs:
            flaws.append(
                Flaw(
                    f"The first {counted(len(theirs), 'question')} of {_told(place)} on this machine are others than "
                    "those of the plan",
                    cells=cells,
                )
            )
        else:
            flaws += _hash_flaws(planned, found, hashed.get(place, {}), cells, "on this machine")
    passed = "They match their hashes in the keys." if n else "None could be compared."
    yield concluded(subject, "consistent", _NAME, n, flaws, passed)


def _hash_flaws(
    planned: PlannedQuestions,
    questions: Sequence[Question],
    slices: Mapping[range, set[str]],
    cells: tuple[str, ...],
    where: str,
) -> Iterator[Flaw]:
    """Yield a flaw for each slice of the questions that does not match its hash, the whole split first."""
    ranges: dict[range, set[str]] = {range(len(planned.questions)): {planned.content_hash}, **slices}
    for part, hashes in ranges.items():
        if hashes != {content_hash(questions[part.start : part.stop])}:
            yield Flaw(
                f"The questions {part.start} to {part.stop - 1} of {planned.name}/{planned.split} {where} do not have "
                "the hash that the keys were made with",
                cells=cells,
            )


def check_disjoint(subject: Subject) -> Check:
    """Check that no question that cells are tested on is among those that calibrators are fitted to.

    They are compared by their ids within a data set, and by their texts where these are known.
    """
    known, unknown = known_questions(subject)
    fitted = {(job.labels.dataset, job.labels.split) for job in subject.plan.jobs_of(FitParameters)}
    tested = {(cell.labels.dataset, cell.labels.split) for cell in subject.plan.cells}
    planned = {(each.name, each.split): each for each in subject.plan.datasets}
    plugins = {each.name: each.reference for each in subject.plan.plugins["dataset"]}
    flaws = [
        Flaw(f"{job}: it reads questions of {_told(place)}, on which cells are tested", job.refs)
        for job in subject.plan.jobs_of(FitParameters)
        for place in sorted(
            {(each.labels.dataset, each.labels.split) for each in (job, *job.inputs)} & tested
        )
    ]
    n = 0
    for test in sorted(tested & planned.keys()):
        for calibration in sorted(fitted & planned.keys()):
            if test == calibration:
                continue  # It was found above.
            n += len(planned[test].questions)
            shared = _shared(
                known.get(test), known.get(calibration), planned[test], planned[calibration], plugins
            )
            if shared:
                flaws.append(
                    Flaw(
                        f"The calibration questions of {_told(calibration)} have "
                        f"{counted(len(shared), 'test question')} of {_told(test)}, such as "
                        f"'{excerpt(shared[0], 60)}'",
                        cells=_cells_of(subject, test),
                    )
                )
    blind = sorted({_told(each) for each in (fitted | tested) & unknown.keys()})
    how = f"; only by their ids for {', '.join(blind)}, whose texts are not known here" if blind else ""
    passed = f"None of {counted(n, 'test question')} is a calibration question{how}."
    return concluded(subject, "consistent", _DISJOINT, n, flaws, passed)


def _shared(
    test: Sequence[Question] | None,
    calibration: Sequence[Question] | None,
    planned_test: PlannedQuestions,
    planned_calibration: PlannedQuestions,
    plugins: Mapping[str, PluginReference],
) -> list[str]:
    """Return the ids of the test questions that are calibration questions too."""
    found: dict[str, None] = {}
    if test is not None and calibration is not None:
        texts = {each.text for each in calibration}
        found |= dict.fromkeys(each.id for each in test if each.text in texts)
    one, other = plugins.get(planned_test.name), plugins.get(planned_calibration.name)
    same_data = one is not None and other is not None and one.plugin == other.plugin
    # Ids may be numbers within a split, so that those of two splits say nothing.
    if same_data and planned_test.split == planned_calibration.split:
        ids = {each.id for each in planned_calibration.questions}
        found |= dict.fromkeys(each.id for each in planned_test.questions if each.id in ids)
    return list(found)


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
    reference = next(
        (each.reference for each in subject.plan.plugins["dataset"] if each.name == planned.name), None
    )
    if reference is None:
        return "the plan does not say which data set it is."
    try:
        built: Dataset = reference.build(datasets)
        if isinstance(built, FollowedUpDataset):
            return "its questions come with published success rates, which are not on this machine."
        if subject.submission and _has_path(reference):
            return "its questions come from a file of the submitter."
        if built.absent_size(planned.split) is not None:
            return "the data set is not on this machine."
        return tuple(built.questions(planned.split, len(planned.questions)))
    except PrmcalError as error:
        return excerpt(str(error), 200)
    except Exception as error:  # of a plugin
        return f"the data set could not be read ({type(error).__name__})."


def _has_path(reference: PluginReference) -> bool:
    return any(isinstance(value, str) and set(value) & set("/\\.") for value in reference.arguments.values())


def _cells_of(subject: Subject, place: Place) -> tuple[str, ...]:
    """Return the cells that are tested on a split, and all cells for a split that calibrators are fitted to."""
    own = [cell.cell_id for cell in subject.plan.cells if (cell.labels.dataset, cell.labels.split) == place]
    return tuple(own) or tuple(cell.cell_id for cell in subject.plan.cells)


def _told(place: Place) -> str:
    return "/".join(place)
