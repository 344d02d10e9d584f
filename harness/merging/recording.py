"""The database of a merged leaderboard: that of a run with the merged plan, and where its rows come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from prmcal.db.tables import Cell as CellRow
from prmcal.db.tables import Plugin
from prmcal.db.tables.base import Base
from prmcal.harness.execution.recorder import Recorder
from prmcal.harness.merging.provenance import cell_columns, run_rows, submission_rows
from prmcal.harness.merging.seeds import seed_spreads
from prmcal.harness.merging.submissions.folder import GRID_NAME, incoming
from prmcal.harness.merging.submissions.verifications import Recorded
from prmcal.harness.merging.union import Union
from prmcal.harness.planning.plan import Cell
from prmcal.harness.planning.saved import write_plan
from prmcal.harness.storage.folder import RunFolder, RunRecord
from prmcal.harness.storage.store import ArtifactRef, Manifest, Store, content_key, storage_errors

__all__ = ["write_leaderboard"]


def write_leaderboard(
    directory: Path, union: Union, recorded: Sequence[Recorded], verify: bool = False
) -> None:
    """Write the plan, the record and the database of a merged leaderboard.

    The database is written from the beginning in another place, and put in its place when it is complete. There is no
    copy for readers, because nothing is written to it afterwards.

    Parameters
    ----------
    directory : Path
    union : Union
        All submissions, whose artifacts are in the folder.
    recorded : sequence of Recorded
        All verifications.
    verify : bool
        Whether to compare the hashes of all artifacts. What does not match counts as absent.
    """
    aside = RunFolder(directory)
    with storage_errors(directory):
        incoming(directory).mkdir(exist_ok=True)
    database, published = aside.database, aside.published
    aside.database = incoming(directory) / database.name
    aside.published = incoming(directory) / published.name
    record = _record(union)
    write_plan(directory, record.grid, union.plan, union.plan.model_seconds or {})
    RunFolder(directory).write_record(record)
    store = Store(directory)
    done = store.manifests((shard.ref for shard in union.plan.shards()), verify=verify)
    recorder = _MergedRecorder(aside, union, recorded, store, record, done)
    recorder.begin(done)
    recorder.note_failures(union.failures)
    recorder.end()
    with storage_errors(directory):
        aside.published.replace(published)
        database.unlink(missing_ok=True)  # Earlier versions of prmcal wrote it beside the published one.


def _record(union: Union) -> RunRecord:
    """Return the record of a merged leaderboard. Its grid is always the same, so any of its plans belongs to it."""
    return RunRecord(
        grid={"name": GRID_NAME},
        plugin_files=[],
        run_id=content_key([each.submission_id for each in union.submissions])[:12],
        started_at=min(each.record.started_at for each in union.submissions),
        finished_at=max(each.measured_at for each in union.submissions),
    )


class _MergedRecorder(Recorder):
    """A recorder that adds what only a merged leaderboard has."""

    def __init__(
        self,
        folder: RunFolder,
        union: Union,
        recorded: Sequence[Recorded],
        store: Store,
        record: RunRecord,
        done: Mapping[ArtifactRef, Manifest],
    ) -> None:
        super().__init__(folder, union.plan, store, record)
        self._columns = {name: cell_columns(union, each, recorded) for name, each in union.cells.items()}
        self._runs = run_rows(union)
        self._base_names = union.base_names
        intact = {
            name for name, each in union.cells.items() if all(ref in done for ref in each.cell.job.refs)
        }
        self._further = [*submission_rows(union, recorded), *seed_spreads(union, store, intact)]

    def publish(self, complete: bool) -> None:
        if complete:
            self.writer.finish()

    def run_rows(self, status: str) -> list[Base]:
        return self._runs

    def description(self) -> list[Base]:
        rows = super().description()
        for row in rows:
            if isinstance(row, Plugin):
                base = self._base_names.get((row.kind, row.name), row.name)
                row.base_name = None if base == row.name else base
        return [*rows, *self._further]

    def cell_row(self, cell: Cell) -> CellRow:
        row = super().cell_row(cell)
        for name, value in self._columns[cell.cell_id].items():
            setattr(row, name, value)
        return row
