"""``prmcal run``: run a grid, and say what was done; ``prmcal grade``: grade the answers of a run once more."""

import io
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from prmcal.db.text.formats import counted, duration
from prmcal.errors import PrmcalError
from prmcal.harness.cli import options
from prmcal.harness.cli.app import ExitCode
from prmcal.harness.cli.options import option, tell
from prmcal.harness.cluster.executor import RayExecutor
from prmcal.harness.cluster.nodes import ClusterSettings
from prmcal.harness.execution.ending import Ending, RunSummary, lines_on_failures
from prmcal.harness.execution.machine import default_workers
from prmcal.harness.execution.run import run_grid
from prmcal.harness.jobs.parameters import GeneratingParameters, ScoringParameters
from prmcal.harness.planning.reading import grid_of
from prmcal.harness.planning.saved import existing_plan, load_plugins_of
from prmcal.harness.storage.folder import RunFolder
from prmcal.harness.terminal import wrapped

_ENDINGS: dict[Ending, tuple[ExitCode, str]] = {
    "SIGINT": (ExitCode.INTERRUPTED, "Interrupted."),
    "SIGTERM": (ExitCode.TERMINATED, "The run was ended by SIGTERM."),
    "SIGHUP": (ExitCode.HUNG_UP, "The run was ended by SIGHUP."),
}
_EXECUTOR = "Where the workers are: local (processes on this machine) or ray (on the nodes of a Ray cluster)."
_ADDRESS = "The head node of the Ray cluster. Default: the cluster that runs on this machine, or a new one."
_DROP_CELLS = (
    "Delete finished cells that the grid no longer has, or that have changed and that --only leaves out. Without this "
    "option, the run refuses to start if there are any."
)


def run(
    grid: options.GridArgument,
    out: options.OutOption,
    only: options.OnlyOption = None,
    limit: options.LimitOption = None,
    workers: options.WorkersOption = None,
    executor: Annotated[str, option("NAME", _EXECUTOR)] = "local",
    address: Annotated[str | None, option("HOST:PORT", _ADDRESS)] = None,
    plugin: options.PluginOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print failures only.")] = False,
    drop_cells: Annotated[bool, typer.Option("--drop-cells", help=_DROP_CELLS)] = False,
) -> None:
    """Run a grid.

    To continue an interrupted run, run the same command again: finished work is kept. Ctrl-C, SIGTERM and SIGHUP end
    the run at once and record what is finished.
    """
    spec = options.load_grid(grid, limit, plugin)
    files = [*(plugin or []), *map(Path, spec.plugins)]
    options.one_of("--executor", executor, ("local", "ray"))
    if address is not None and executor == "local":
        raise PrmcalError("--address is for runs on a cluster. Add --executor ray.")
    cluster = ClusterSettings(address, workers) if executor == "ray" else None
    with ExitStack() as stack:
        ray_executor = stack.enter_context(RayExecutor(out, files, cluster)) if cluster else None
        count = workers or default_workers() if ray_executor is None else ray_executor.workers
        where = "" if ray_executor is None else f" on {counted(ray_executor.nodes, 'node')} of a cluster"
        if not quiet:
            tell(wrapped(f"Running the grid '{spec.name}' in {out} with {counted(count, 'worker')}{where}."))
        stream, names = io.StringIO() if quiet else None, options.names_by_kind(only)
        summary = run_grid(spec, out, count, files, ray_executor, stream=stream, only=names, drop_cells=drop_cells)
    if not quiet:
        tell(wrapped(_done(summary)))
    if summary.failures:
        tell("\n".join(lines_on_failures(summary.failures, summary.log)))
    if summary.ending is not None:
        code, event = _ENDINGS[summary.ending]
        tell(f"{event} Finished work is kept. To continue, run the same command again.")
        raise typer.Exit(code)
    if not quiet:
        tell(f"\n{_findings(out)}")
    raise typer.Exit(ExitCode.FAILED_CELLS if summary.failures else ExitCode.DONE)


def _done(summary: RunSummary) -> str:
    text = (
        f"{summary.done_cells:,} of {counted(summary.cells, 'cell')} done in {duration(summary.seconds)}: "
        f"{counted(summary.computed, 'shard')} computed, {summary.reused:,} reused, "
        f"{counted(summary.failed_cells, 'cell')} failed. Log: {summary.log}"
    )
    if summary.cells < summary.grid_cells:
        text += f"\nThe grid has {summary.grid_cells:,} cells. To run all of them, leave out --only."
    return text


def _findings(directory: Path) -> str:
    """Return a line on how answers were found, if not in boxes, and below it the overview of the run."""
    from prmcal.db.overview.query import overview
    from prmcal.db.queries.health import health
    from prmcal.db.reader import reading
    from prmcal.db.text.health import answers_read
    from prmcal.harness.cli.leaderboard import overview_text

    with reading(RunFolder(directory).results()) as source:
        answers, ranked = answers_read(health(source, all_checks=True)), overview(source)
    readings = [wrapped(f"{name}: {share}. {where}.") for name, share, where in answers]
    return "\n\n".join(filter(None, ["\n".join(readings), overview_text(ranked, directory).rstrip()]))


def grade(
    directory: options.RunArgument,
    grader: Annotated[
        str, option("NAME", "A grader, such as exact, letter, function or judge: `prmcal list grader`.", "--with")
    ],
    name: Annotated[str | None, option("NAME", "The name of its verdicts. Default: the name of the grader.")] = None,
    arguments: Annotated[
        str, option("JSON", 'Arguments for the grader, such as {"function": "my_module:same"}.')
    ] = "{}",
    workers: options.WorkersOption = None,
) -> None:
    """Grade the answers of a run once more, by another grader.

    Its verdicts are shown beside the verdicts of the first grader, which still decides what is correct. Nothing is
    sampled and nothing is scored.
    """
    from prmcal.db.queries.health import GRADER, health
    from prmcal.db.text.health import sentence

    grader_name = name or grader
    entry = {"name": grader_name, "plugin": grader, "arguments": _parsed(arguments)}
    folder = RunFolder(directory)
    record = folder.record()
    if "grids" in record.grid:
        raise PrmcalError(f"{directory} is a merge of different grids. Grade each grid's run, and merge again.")
    load_plugins_of(folder)
    plan = existing_plan(folder)
    selected_plan = plan.part(plan.cells_with(record.only))
    model_parameters = (GeneratingParameters, ScoringParameters)
    model_shards = [shard.ref for shard in selected_plan.shards() if isinstance(shard.parameters, model_parameters)]
    unfinished = len(model_shards) - len(folder.store.manifests(model_shards, verify=False))
    if unfinished:
        raise PrmcalError(
            f"The run in {directory} is not finished: {counted(unfinished, 'shard')} are left to sample or to score. "
            "Run its grid to the end, and grade it then."
        )
    grid = grid_of(with_grader(record.grid, entry), "The grid with this grader")
    files = [Path(file) for file in record.plugin_files]
    summary = run_grid(grid, directory, workers or default_workers(), files, only=record.only)
    for finding in health(folder.results()):
        if finding.check == GRADER + grader_name:
            tell(wrapped(sentence(finding)))
    if summary.failures:
        tell("\n".join(lines_on_failures(summary.failures, summary.log)))
    raise typer.Exit(ExitCode.FAILED_CELLS if summary.failures else ExitCode.DONE)


def _parsed(text: str) -> dict[str, Any]:
    try:
        arguments = json.loads(text)
    except ValueError as error:
        raise PrmcalError(f"--arguments must be a JSON object. Got '{text}': {error}.") from error
    if not isinstance(arguments, dict):
        raise PrmcalError(f"--arguments must be a JSON object. Got '{text}'.")
    return arguments


def with_grader(grid: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """Return the data of a grid with one more grader for all data sets. A grader of the same name is replaced."""

    def changed(data: dict[str, Any]) -> dict[str, Any]:
        first_grader, *other_graders = data["graders"] or [{"name": "default", "plugin": "default", "arguments": {}}]
        others = (grader for grader in other_graders if grader["name"] != entry["name"])
        return {**data, "graders": [first_grader, *others, entry]}

    graded_grid, *graded_parts = (
        {**part, "calibration": changed(part["calibration"]), "datasets": list(map(changed, part["datasets"]))}
        for part in (grid, *grid.get("parts", ()))
    )
    return {**graded_grid, "parts": graded_parts}
