"""The tiers in their order: each is told, agreed to and run, and the first one with a failed check is the last."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from prmcal import __version__
from prmcal.db.metrics import TIERS, Tier
from prmcal.errors import DataError, PrmcalError
from prmcal.harness.share.verify_record import Check, Verification
from prmcal.harness.verifying.consistent.examining import check_artifacts, examining
from prmcal.harness.verifying.consistent.keys import check_identities, check_keys
from prmcal.harness.verifying.consistent.questions import check_disjoint, check_questions, known_questions
from prmcal.harness.verifying.repeated.fits import check_fits
from prmcal.harness.verifying.repeated.graded import check_grades
from prmcal.harness.verifying.repeated.models import LayeredStore, ModelContext, Texts
from prmcal.harness.verifying.repeated.reproduced import check_reproduction
from prmcal.harness.verifying.repeated.scored import check_scores_again
from prmcal.harness.verifying.subject import Subject, opened
from prmcal.harness.verifying.tiers.costs import Asked
from prmcal.registry.messages import excerpt, message_of

__all__ = ["Supplied", "Told", "verified"]


@dataclass(frozen=True)
class Supplied:
    """What a verification uses besides the submission.

    Attributes
    ----------
    texts_from : Path or None
        A bundle or a folder with the texts of the same trajectories.
    plugin_files : tuple of Path
        Plugin files, which are loaded already.
    """

    texts_from: Path | None = None
    plugin_files: tuple[Path, ...] = ()


class Told:
    """What hears of the progress of a verification. By default it agrees to all tiers and says nothing."""

    def begins(self, subject: Subject, tier: Tier, asked: Asked) -> bool:
        """Hear that a tier is next. Return whether it is run."""
        return True

    def examined(self, done: int, total: int) -> None:
        """Hear how many artifacts are examined."""

    def works(self, line: str) -> None:
        """Hear what is done now."""


def verified(
    subject: Subject,
    tier: Tier,
    asked: Asked,
    supplied: Supplied,
    told: Told,
    by: str = "",
    seed: int | None = None,
) -> Verification:
    """Verify a submission up to a tier. A tier with a failed check ends it.

    Parameters
    ----------
    subject : Subject
    tier : {"consistent", "graded again", "scored again", "reproduced"}
        The highest tier.
    asked : Asked
    supplied : Supplied
    told : Told
    by : str
        The name of the verifier.
    seed : int, optional
        The seed of all random choices. By default it is drawn now, so that a submitter cannot know it.

    Raises
    ------
    PrmcalError
        If something else than the submission is wrong, such as a folder of `supplied`.
    """
    drawn = secrets.randbits(63) if seed is None else seed
    checks: list[Check] = []
    tried: Tier = TIERS[0]
    with _prepared(subject, supplied) as run:
        for each in TIERS[: TIERS.index(tier) + 1]:
            if not told.begins(subject, each, asked):
                break
            tried = each
            checks += run(each, asked, drawn, told)
            if not all(check.passed for check in checks):
                break
    return Verification(
        "" if subject.submission is None else subject.submission.submission_id,
        tried,
        all(check.passed for check in checks),
        by,
        datetime.now(UTC).isoformat(timespec="seconds"),
        __version__,
        drawn,
        tuple(checks),
    )


_Run = Callable[[Tier, Asked, int, Told], Sequence[Check]]


@contextmanager
def _prepared(subject: Subject, supplied: Supplied) -> Iterator[_Run]:
    """Yield a function that runs a tier. What the tiers with models share is made when it is first needed."""
    with tempfile.TemporaryDirectory(prefix="prmcal-again-") as work, _texts_of(supplied) as others:
        made: list[tuple[Texts, ModelContext]] = []

        def models() -> tuple[Texts, ModelContext]:
            if not made:
                known, unknown = known_questions(subject)
                for other in others:
                    known = known_questions(other)[0] | known
                texts = Texts(known, unknown, (subject.store, *(other.store for other in others)))
                store = LayeredStore(subject.directory, Path(work))
                made.append((texts, ModelContext(subject, texts, store)))
            return made[0]

        def run(tier: Tier, asked: Asked, seed: int, told: Told) -> Sequence[Check]:
            if tier == "consistent":
                return _consistent(subject, asked, supplied, seed, told)
            texts, context = models()
            if tier == "graded again":
                return list(check_grades(subject, texts))
            if tier == "reproduced":
                return list(check_reproduction(subject, context, asked.questions, seed, told.works))
            scores = check_scores_again(subject, context, asked.share, seed, told.works)
            return [*scores, *check_fits(subject, context, asked.all_fits, told.works)]

        try:
            yield run
        finally:
            for _, context in made:
                context.close()


@contextmanager
def _texts_of(supplied: Supplied) -> Iterator[list[Subject]]:
    if supplied.texts_from is None:
        yield []
        return
    if not supplied.texts_from.exists():
        raise DataError(f"There is no bundle or folder {supplied.texts_from} for --texts-from.")
    with opened(supplied.texts_from) as subject:
        yield [subject]


def _consistent(subject: Subject, asked: Asked, supplied: Supplied, seed: int, told: Told) -> list[Check]:
    with examining(
        subject, asked.workers, supplied.plugin_files, told.examined, asked.results, seed
    ) as examined:
        before = [_origin(subject), check_keys(subject), check_identities(subject)]
        before += _guarded("questions of the data sets", lambda: check_questions(subject))
        before += _guarded("test and calibration questions", lambda: [check_disjoint(subject)])
        return [*before, *check_artifacts(subject, examined())]


def _guarded(name: str, make: Callable[[], Iterable[Check]]) -> list[Check]:
    """Return some checks, or a failed one if the artifacts are not what a run writes."""
    try:
        return list(make())
    except PrmcalError:
        raise
    except Exception as error:
        why = f"The artifacts are not those that a run writes ({excerpt(message_of(error), 150)})."
        return [Check("consistent", name, False, 0, why)]


def _origin(subject: Subject) -> Check:
    """Say what is known of the bundle. Its files were compared with their hashes when it was unpacked."""
    submission = subject.submission
    if submission is None:
        return Check("consistent", "bundle", True, 0, "It is the folder of a run, so nobody has signed it.")
    who = f" by {submission.signer}" if submission.signer else ""
    signed = f"signed{who} with {submission.signed_by}" if submission.signed_by else "not signed"
    n = len(submission.files)
    message = f"The submission {submission.submission_id} has {n:,} files, which match their hashes. It is {signed}."
    return Check("consistent", "bundle", True, n, message)
