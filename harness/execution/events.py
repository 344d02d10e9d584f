"""What a run hears from its workers: outcomes of shards, and notices."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from prmcal.harness.execution.ending import Failure
from prmcal.harness.storage.store import ArtifactRef, Manifest


@dataclass(frozen=True, slots=True)
class ShardOutcome:
    """The outcome of a shard."""

    ref: ArtifactRef
    manifest: Manifest | None = None
    """The manifest of its artifact, or None if it failed."""
    failure: Failure | None = None
    """Why it failed, or None for a success."""
    blocked: bool = False
    """True if it was not computed because a shard that it needs failed."""
    fatal: bool = False
    """True if the run must stop because the machine failed, for example with a full disk."""
    broken: bool = False
    """True if a model or the worker broke, so that another try in a new process may succeed."""
    log: tuple[str, ...] = ()
    """Lines for the log: repeated requests, warnings, and the traceback of an error."""

    @classmethod
    def of_death(cls, ref: ArtifactRef, reason: str, lines: Sequence[str] = ()) -> Self:
        """Return the outcome of a shard whose worker died, which can happen without a fault of the shard.

        `reason` says how it died, without a full stop, and `lines` are its last lines of output.
        """
        return cls(ref, failure=Failure(f"{reason}.", "crash"), broken=True, log=tuple(lines))


@dataclass(frozen=True, slots=True)
class Notice:
    """A message for the log of the run, such as the death of a worker."""

    line: str
    """One sentence."""
    details: tuple[str, ...] = ()
    """Lines below it, such as the last lines that a worker wrote."""
    urgent: bool = False
    """True if it is shown on the terminal too, at once."""


Event = ShardOutcome | Notice | None
"""None comes from time to time while nothing happens."""
