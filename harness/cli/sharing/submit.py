"""``prmcal submit``: write results of a run into a bundle for others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prmcal.db.queries.cells import find_cell
from prmcal.db.text.formats import counted, file_size
from prmcal.errors import RunError, StorageError
from prmcal.harness.cli.app import ending_cleanly
from prmcal.harness.cli.options import (
    CalibratorsOption,
    DatasetsOption,
    LLMsOption,
    PRMsOption,
    RunArgument,
    StrategiesOption,
    argument,
    completing_cells,
    given,
    option,
)
from prmcal.harness.planning.saved import existing_plan
from prmcal.harness.share.bundle import About
from prmcal.harness.share.submissions import is_merged
from prmcal.harness.share.writing import Bundled, write_bundle
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.terminal import wrapped


@ending_cleanly()
def submit(
    directory: RunArgument,
    out: Annotated[Path, option("BUNDLE", "The file to write.", "--out")],
    cells: Annotated[
        list[str] | None,
        argument(
            "CELLS",
            "Cells by number, id or part of an id. Default: all finished ones.",
            autocompletion=completing_cells,
        ),
    ] = None,
    llm: LLMsOption = None,
    prm: PRMsOption = None,
    calibrator: CalibratorsOption = None,
    dataset: DatasetsOption = None,
    strategy: StrategiesOption = None,
    submitter: Annotated[str, option("NAME", "Who submits: a person or a laboratory.")] = "",
    licence: Annotated[str, option("LICENCE", "The licence of the results, such as CC-BY-4.0.")] = "",
    note: Annotated[str, option("TEXT", "A note for the readers.")] = "",
    texts: Annotated[
        bool, typer.Option("--texts", help="Include the texts of questions and trajectories.")
    ] = False,
    models: Annotated[bool, typer.Option("--models", help="Include the fits that change the PRM.")] = False,
    key: Annotated[Path | None, option("FILE", "Sign the bundle with this SSH key.", "--key")] = None,
    with_paths: Annotated[
        bool,
        typer.Option(
            "--with-paths", help="Include arguments that tell of this machine, such as the path of a model."
        ),
    ] = False,
) -> None:
    """Write results into a bundle for others.

    A bundle is one file with the chosen cells and all that is behind them: manifests, what the keys are made of,
    counts, rewards, grades, seeds, versions and hardware. Others merge it into their leaderboards, and verify it. Texts
    and model files are left out unless you ask for them. Nothing of your machine gets in.
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
    filters = given(llm=llm, prm=prm, calibrator=calibrator, dataset=dataset, strategy=strategy)
    folder = RunFolder(directory)
    plan = existing_plan(folder)
    chosen = None
    if cells or filters:
        published = folder.results() if cells else None
        named = {find_cell(published, name) for name in cells or []} if published else None
        chosen = [cell.cell_id for cell in plan.cells_with(filters) if named is None or cell.cell_id in named]
    about = About(submitter, licence, note)
    written = write_bundle(
        directory, chosen, out, about, texts=texts, models=models, key=key, with_paths=with_paths
    )
    typer.echo(_summary(out, written, len(plan.cells)), err=True)


def _summary(out: Path, written: Bundled, planned: int) -> str:
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
