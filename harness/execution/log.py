"""The log of a run: a line for each shard, and what a terminal does not show."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TextIO

from prmcal import __version__
from prmcal.errors import StorageError
from prmcal.harness.planning.plan import Plan
from prmcal.harness.scheduling.schedule import Outcome

__all__ = ["RunLog"]


class RunLog:
    """Append to the log of a run. Earlier runs stay in it.

    Parameters
    ----------
    file : Path
    plan : Plan

    Raises
    ------
    StorageError
        If the file cannot be written.
    """

    def __init__(self, file: Path, plan: Plan) -> None:
        self.file = file
        self._plan = plan
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._stream: TextIO = file.open("a", encoding="utf-8", errors="backslashreplace", buffering=1)
        except OSError as error:
            raise StorageError(
                f"The log {file} cannot be written ({error.strerror or error}). Choose another --log-file."
            ) from error

    def write(self, line: str, details: Sequence[str] = ()) -> None:
        """Write a line with the time, and details in indented lines."""
        lines = [f"{datetime.now():%Y-%m-%d %H:%M:%S}  {line}"]
        lines += [f"    {each}" for detail in details for each in detail.splitlines()]
        self._stream.write("\n".join(lines) + "\n")

    def begin(self, reused: int, workers: int) -> None:
        """Write how much there is to do."""
        total = len(self._plan.shards())
        self.write(
            f"prmcal {__version__}: {total:,} shards with {workers} workers, of which {reused:,} were finished before."
        )

    def end(self, seconds: float, published: float) -> None:
        """Write how long the run took, and how many seconds of these results were published for readers."""
        share = published / seconds
        self.write(
            f"The run took {seconds:,.1f} s. Publishing results meanwhile took {share:.1%} of this time."
        )

    def note(self, outcome: Outcome) -> None:
        """Write the outcome of a shard: its time, its tokens, its warnings, and the traceback if it failed."""
        what = f"{self._plan.job_of(outcome.ref)}  {outcome.ref.kind}/{outcome.ref.key}"
        manifest = outcome.manifest
        if outcome.blocked:
            self.write(f"   blocked  {what}")
            return
        if manifest is None:
            assert outcome.failure is not None
            self.write(f"    failed  {what}", [outcome.failure.reason, *outcome.log])
            return
        tokens = manifest.generated_tokens + manifest.scored_tokens
        counted = f"  ({tokens:,} tokens)" if tokens else ""
        self.write(f"{manifest.seconds:8.1f} s  {what}{counted}", outcome.log)

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
