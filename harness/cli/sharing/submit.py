"""``prmcal submit``: write results of a run into a bundle for others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from prmcal.db.queries.cells import find_cell
from prmcal.db.text.formats import counted, file_size
from prmcal.errors import RunError, StorageError
from prmcal.harness.planning.plan import cells_with
from prmcal.harness.planning.saved import existing_plan
from prmcal.harness.share.bundle import About
from prmcal.harness.share.submissions import is_merged
from prmcal.harness.share.writing import Bundled, write_bundle
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.terminal import wrapped

__all__ = ["submit"]


def submit(
    directory: Path,
    names: Sequence[str],
    filters: Mapping[str, Sequence[str]],
    out: Path,
    about: About,
    *,
    texts: bool = False,
    models: bool = False,
    key: Path | None = None,
    with_paths: bool = False,
) -> str:
    """Write a bundle, and return what the user is told about it.

    Parameters
    ----------
    directory : Path
        The output folder of a run.
    names : sequence of str
        Cells by their numbers, ids or parts of ids; none for all.
    filters : mapping of str to sequence of str
        Names in the grid by kind. Only cells with them are submitted.
    out : Path
    about : About
    texts, models, key, with_paths
        See :func:`prmcal.harness.share.writing.write_bundle`.

    Raises
    ------
    UnknownCellError, GridError
        If there is no such cell, or no cell passes the filters.
    RunError, BundleError, StorageError
        See :func:`prmcal.harness.share.writing.write_bundle`.
    """
    if out.is_dir():
        raise StorageError(
            f"{out} is a folder. A bundle is one file: choose a name for --out, such as {out}.bundle."
        )
    if is_merged(directory):
        raise RunError(
            f"{directory} is a merged leaderboard. Send the folder itself, which others merge, or the bundles that it "
            "was merged from."
        )
    folder = RunFolder(directory)
    plan = existing_plan(folder)
    chosen = None
    if names or filters:
        published = folder.results() if names else None
        named = {find_cell(published, name) for name in names} if published else None
        chosen = [
            cell.cell_id for cell in cells_with(plan, filters) if named is None or cell.cell_id in named
        ]
    written = write_bundle(
        directory, chosen, out, about, texts=texts, models=models, key=key, with_paths=with_paths
    )
    return _told(out, written, len(plan.cells))


def _told(out: Path, written: Bundled, planned: int) -> str:
    submission = written.submission
    lines = [
        f"Wrote {out} ({file_size(out.stat().st_size)}): submission {submission.submission_id} with "
        f"{counted(written.cells, 'cell')} of {planned:,}."
    ]
    if written.failed:
        lines.append(f"{counted(written.failed, 'cell')} of them failed. The reasons are in the bundle.")
    left_out = ["hidden states"]
    if not submission.models:
        left_out.append("fits that change the PRM (--models)")
    if not submission.texts:
        left_out.append("texts and reference answers (--texts)")
    lines.append(f"Left out: {', '.join(left_out)}.")
    if submission.signed_by:
        lines.append(f"Signed by {submission.signed_by}.")
    else:
        lines.append("It is not signed. To sign it: --key FILE, such as ~/.ssh/id_ed25519")
    if not submission.licence:
        lines.append("It has no licence, so others may not publish it. To give one: --licence CC-BY-4.0")
    return wrapped("\n".join(lines))
