"""All artifacts of a plan: each is looked at, and computed again if it needs no model, on several processes."""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from prmcal.db.text.formats import counted
from prmcal.errors import PrmcalError, RunError
from prmcal.harness.execution.worker import ONE_THREAD, starting_with
from prmcal.harness.jobs.job import Shard
from prmcal.harness.jobs.parameters import Parameters
from prmcal.harness.planning.plan import PlannedQuestions
from prmcal.harness.share.verify_record import Check
from prmcal.harness.storage.store import ArtifactRef, Store
from prmcal.harness.verifying.consistent.again import RELATIVE, computed_again, is_recomputed
from prmcal.harness.verifying.consistent.contents import check_contents
from prmcal.harness.verifying.consistent.neighbours import neighbours, orphans
from prmcal.harness.verifying.context import VerifyingContext
from prmcal.harness.verifying.drawing import drawing
from prmcal.harness.verifying.findings import Flaw, concluded, not_made, place_of
from prmcal.harness.verifying.subject import Subject
from prmcal.registry.messages import excerpt, message_of

__all__ = ["Examined", "check_artifacts", "examine", "examining"]

_Group = Sequence[tuple[Shard[Parameters], bool]]
"""Artifacts that a process examines one after another, and whether each is computed again."""


@dataclass(frozen=True, slots=True)
class Examined:
    """What was found out about an artifact.

    Attributes
    ----------
    ref : ArtifactRef
    rows : int
        Rows whose contents were checked.
    strange : tuple of str
        What is wrong with its contents.
    again : bool
        Whether it was computed again.
    different : tuple of str
        How the results differ.
    unlike : str
        Why it could not be computed again as it was; or empty.
    """

    ref: ArtifactRef
    rows: int = 0
    strange: tuple[str, ...] = ()
    again: bool = False
    different: tuple[str, ...] = ()
    unlike: str = ""


def examine(shard: Shard[Parameters], context: VerifyingContext, again: bool = True) -> Examined:
    """Check the contents of an artifact, and compute it again if that needs no model and `again` is true."""
    rows, strange = _contents(shard, context)
    if not again or not is_recomputed(shard):
        return Examined(shard.ref, rows, tuple(strange))
    different, unlike = computed_again(shard, context)
    return Examined(shard.ref, rows, tuple(strange), not unlike, tuple(different), unlike)


def _contents(shard: Shard[Parameters], context: VerifyingContext) -> tuple[int, list[str]]:
    try:
        return check_contents(shard, context)
    except PrmcalError as error:
        return 0, [excerpt(str(error), 200).rstrip(".")]
    except Exception as error:  # of tables with other columns than a run writes
        return 0, [f"its tables cannot be read as those of a run ({excerpt(message_of(error), 150)})"]


@contextmanager
def examining(
    subject: Subject,
    workers: int,
    plugin_files: Sequence[Path],
    report: Callable[[int, int], None],
    share: float = 1.0,
    seed: int = 0,
) -> Iterator[Callable[[], dict[ArtifactRef, Examined]]]:
    """Examine all artifacts that are here with everything that they read, while this process does something else.

    It yields a function that waits for the end and returns what was found. With 1 worker, all is examined in this call.

    Parameters
    ----------
    subject : Subject
    workers : int
        Processes. With 1, this process does it.
    plugin_files : sequence of Path
        Plugin files that the processes load. This one has loaded them.
    report : callable
        Takes the number of finished artifacts and the number of all.
    share : float
        The share of results that are computed again, in (0, 1]. They are drawn at random.
    seed : int
        The seed of the verification, from which they are drawn.

    Raises
    ------
    RunError
        If a process dies, for example because there is no memory left.
    """
    chosen = _drawn(subject, share, seed)
    groups = [[(shard, shard.ref in chosen) for shard in group] for group in neighbours(subject)]
    total = sum(map(len, groups))
    with _examined_groups(subject, groups, workers, plugin_files) as parts:

        def wait() -> dict[ArtifactRef, Examined]:
            found: dict[ArtifactRef, Examined] = {}
            for part in parts:
                found |= {each.ref: each for each in part}
                report(len(found), total)
            return found

        yield wait


@contextmanager
def _examined_groups(
    subject: Subject, groups: Sequence[_Group], workers: int, plugin_files: Sequence[Path]
) -> Iterator[Iterator[list[Examined]]]:
    if workers == 1:
        context = VerifyingContext(subject.store, subject.plan.datasets)
        yield ([examine(shard, context, again) for shard, again in group] for group in groups)
        return
    given = subject.directory, subject.plan.datasets, list(plugin_files)
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _begin, given)
    try:
        with starting_with(ONE_THREAD):
            parts = pool.map(_examine_group, groups)  # It starts all processes.
        yield parts
    except BrokenProcessPool as error:
        raise RunError(
            "A process of the verification died, perhaps because there was no memory left. Run it again with fewer "
            "--workers."
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def check_artifacts(subject: Subject, found: dict[ArtifactRef, Examined]) -> Iterator[Check]:
    """Check that artifacts are complete, that their rows are possible, and that results are those computed again."""
    missing = subject.missing()
    n = len(subject.manifests)
    yield concluded(
        subject,
        "consistent",
        "artifacts",
        n,
        (
            *(
                Flaw(f"{place_of(subject, ref)}: its artifact is absent or damaged", (ref,))
                for ref in missing
            ),
            *(
                Flaw(
                    f"{place_of(subject, ref)}: its artifact is here without what it is computed from", (ref,)
                )
                for ref in orphans(subject)
            ),
        ),
        f"{counted(n, 'artifact')} match their manifests.",
    )
    rows = sum(each.rows for each in found.values())
    yield concluded(
        subject,
        "consistent",
        "rows and values",
        rows,
        (
            Flaw(f"{place_of(subject, each.ref)}: {message}", (each.ref,))
            for each in found.values()
            for message in each.strange
        ),
        f"{counted(rows, 'row')} are those that their jobs promise, with possible values.",
    )
    again = [each for each in found.values() if each.again]
    unlike = [each for each in found.values() if each.unlike]
    yield concluded(
        subject,
        "consistent",
        "results computed again",
        len(again),
        (
            Flaw(f"{place_of(subject, each.ref)}: {message}", (each.ref,))
            for each in again
            for message in each.different
        ),
        f"{counted(len(again), 'artifact')} with metrics, intervals, curves, replicates and calibrated rewards are "
        f"equal when computed again, to {RELATIVE:g} of each number.{_of_all(subject, len(again) + len(unlike))}",
    )
    if unlike:
        first = f"{place_of(subject, unlike[0].ref)}: {unlike[0].unlike}."
        cells = subject.cells_behind(each.ref for each in unlike)
        why = f"{counted(len(unlike), 'artifact')} could not be computed again. {first}"
        yield not_made("consistent", "results of other versions", why, passed=False, cells=cells)


def _of_all(subject: Subject, tried: int) -> str:
    """Say of how many results those that were tried are a part, if a part was drawn."""
    every = sum(is_recomputed(shard) and shard.ref in subject.manifests for shard in subject.plan.shards())
    if tried >= every:
        return ""
    return (
        f" They were drawn at random from {every:,}: one altered result is found with a probability of "
        f"{tried / every:.0%}, and one of ten with {1 - (1 - tried / every) ** 10:.0%}."
    )


def _drawn(subject: Subject, share: float, seed: int) -> set[ArtifactRef]:
    """Draw the artifacts that are computed again."""
    refs = [shard.ref for shard in subject.plan.shards() if is_recomputed(shard)]
    count = math.ceil(share * len(refs))
    places = (
        drawing(seed, "results").choice(len(refs), count, replace=False)
        if count < len(refs)
        else range(count)
    )
    return {refs[place] for place in places}


_context: VerifyingContext | None = None
"""The context of a process of the pool."""


def _begin(directory: Path, datasets: Sequence[PlannedQuestions], plugin_files: Sequence[Path]) -> None:
    global _context
    from prmcal.registry.plugins import load_plugin_file

    for file in plugin_files:
        load_plugin_file(file)
    _context = VerifyingContext(Store(directory), datasets)


def _examine_group(group: _Group) -> list[Examined]:
    assert _context is not None
    return [examine(shard, _context, again) for shard, again in group]
