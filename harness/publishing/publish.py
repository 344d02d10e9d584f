"""Writing the site of a merged leaderboard, and its exports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from prmcal.db.catalog import is_merged, submissions
from prmcal.db.text.formats import counted
from prmcal.errors import PrmcalError
from prmcal.harness.publishing.every_eval_ever import write_records
from prmcal.harness.publishing.hub import check_benchmark, write_hub_results
from prmcal.harness.publishing.measurements import Board, read_board
from prmcal.harness.site import write_site
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.storage.written_folder import WrittenFolder
from prmcal.registry.messages import excerpt

__all__ = ["Published", "Targets", "publish", "without_licence"]

_MARK = "prmcal.json"


@dataclass(frozen=True)
class Targets:
    """The folders that are written. None leaves one out.

    Attributes
    ----------
    site, every_eval_ever, hub : Path or None
    benchmark : str or None
        The hub's data set repository of the benchmark, which `hub` needs.
    """

    site: Path | None = None
    every_eval_ever: Path | None = None
    hub: Path | None = None
    benchmark: str | None = None


@dataclass(frozen=True)
class Published:
    """What was written: its name with numbers, and its folder."""

    what: str
    folder: Path


def publish(directory: Path, targets: Targets) -> list[Published]:
    """Write the site of a merged leaderboard, and its exports.

    Parameters
    ----------
    directory : Path
        The folder of a merged leaderboard.
    targets : Targets

    Raises
    ------
    PrmcalError
        If the folder is not a merged leaderboard, nothing is asked for, or the name of the benchmark is wrong.
    DatabaseError
        If the database cannot be read.
    StorageError
        If a folder holds other files, or cannot be written. What was in it stays.
    """
    published = RunFolder(directory).results()
    if not is_merged(published):
        raise PrmcalError(
            f"{directory} is the folder of a run. Merge it first: `prmcal merge MERGED {directory}`. "
            f"`prmcal export {directory} --html SITE` writes the site of a single run."
        )
    if not (targets.site or targets.every_eval_ever or targets.hub):
        raise PrmcalError("There is nothing to write. Give --html, --every-eval-ever or --hub with a folder.")
    benchmark = check_benchmark(targets.benchmark) if targets.hub else ""
    # Both folders are checked before anything is written.
    records = _folder(targets.every_eval_ever, "folder of records", "--every-eval-ever")
    results = _folder(targets.hub, "folder of results for the hub", "--hub")
    done = []
    if targets.site:
        files = write_site([directory], targets.site)
        done.append(Published(f"a site of {len(files)} files", targets.site))
    board = read_board(published) if records or results else None
    if board and records and targets.every_eval_ever:
        files = records.replace(lambda fresh: write_records(board, published, fresh), _about(board))
        done.append(
            Published(f"{counted(len(files) - 1, 'file')} for Every Eval Ever", targets.every_eval_ever)
        )
    if board and results and targets.hub:
        files = results.replace(lambda fresh: write_hub_results(board, benchmark, fresh), _about(board))
        done.append(Published(f"{counted(len(files) - 1, 'file')} for the hub", targets.hub))
    return done


def without_licence(directory: Path) -> list[str]:
    """Return the submissions of a merged leaderboard that have no licence: their ids and submitters."""
    return [
        f"{row['submission_id']} ({excerpt(row['submitter'] or 'run ' + row['run_id'])})"
        for row in submissions(RunFolder(directory).results()).to_dict("records")
        if not row["licence"]
    ]


def _folder(out: Path | None, kind: str, option: str) -> WrittenFolder | None:
    return None if out is None else WrittenFolder(out, _MARK, kind, option)


def _about(board: Board) -> dict[str, str]:
    return {"prmcal": board.prmcal_version}
