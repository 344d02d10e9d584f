"""``prmcal pools`` lists the shipped pools of recorded samples, and checks a new one."""

from pathlib import Path
from typing import Annotated

import typer

from prmcal.errors import PrmcalError
from prmcal.harness.cli.app import ExitCode
from prmcal.harness.cli.options import argument, completing, one_of
from prmcal.harness.terminal import text_table, wrapped

_ACTIONS = ("list", "check")


def pools(
    action: Annotated[
        str,
        argument(
            "ACTION", "list, or check to say what is wrong with files.", autocompletion=completing(*_ACTIONS)
        ),
    ] = "list",
    files: Annotated[
        list[Path] | None, argument("FILE...", "Pools. Default of list: the shipped ones.")
    ] = None,
) -> None:
    """List pools of recorded samples, or check new ones.

    A shipped pool is the file pool:NAME of `prmcal audit` and of the plugin `recorded`. `prmcal run pools` compares all
    strategies and calibrators on all of them. BEST is the accuracy of the best-scored of all samples of a question, and
    AUC the chance that a right sample of a question has a higher score than a wrong one.
    """
    one_of("ACTION", action, _ACTIONS)
    if action == "list":
        typer.echo("\n\n".join(_listed(files)))
        return
    if not files:
        raise PrmcalError("There is nothing to check. Name a file: prmcal pools check FILE.")
    from prmcal.registry.reading.pools import findings

    found = {file: list(findings(file)) for file in files}
    for file, sentences in found.items():
        lines = [f"{file}: {each}" for each in sentences] or [f"{file}: nothing is wrong."]
        typer.echo("\n".join(wrapped(line, hanging="  ") for line in lines))
    if any(found.values()):
        raise typer.Exit(ExitCode.FAILED_CHECKS)


def _listed(files: list[Path] | None) -> list[str]:
    """Return a table of pools and what each is, in at most 80 columns if names are short."""
    from prmcal.registry.reading.pools import read_pool, shipped_pools, summaries

    named = {path.stem: path for path in files} if files else shipped_pools()
    rows, notes = [], []
    for name, path in named.items():
        for place, each in enumerate(summaries(path)):
            numbers = (each.pass_at_1, each.best_of_n, each.auc)
            size = f"{each.questions}x{each.samples}"
            shown = ["-" if value is None else f"{value:.3f}" for value in numbers]
            rows.append(["" if place else name, each.llm, each.score, size, *shown])
        card, _ = read_pool(path)
        notes.append(
            wrapped(f"{name}: {card.title} Licence: {card.licence}. Source: {card.source}.", hanging="  ")
        )
    return [text_table(["pool", "LLM", "score", "size", "pass@1", "best", "AUC"], rows), *notes]
