"""Commands to learn, and to look at a machine: list, doctor."""

import inspect
import json
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

import prmcal
from prmcal.db.text.board import Column
from prmcal.errors import PluginError, PrmcalError
from prmcal.harness.cli import options
from prmcal.harness.cli.app import ExitCode
from prmcal.harness.execution.machine import describe_gpus, hardware, visible_gpus
from prmcal.harness.jobs.parameters import ALL_GPUS
from prmcal.harness.planning.gpu_hours import billions, checkpoint_of
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.planning.preflight import Questions, asked_solutions, pair_problems, plugin_problems
from prmcal.harness.planning.reading import grid_schema, type_in_words
from prmcal.harness.planning.resolved import absent_checkpoints
from prmcal.harness.planning.settings import DatasetSpec, PluginSpec
from prmcal.harness.terminal import fit, text_table, wrapped
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.plugins import KINDS, calibrators
from prmcal.registry.sources import arguments_model, documented_arguments

_GIVEN = "as given"
_LEGEND = (
    "A fit without training takes less than a second, or minutes on a CPU if it reads hidden states. A pass trains the "
    "PRM on all calibration prefixes. 'any': a grid may ask for every level beta. 'as given': it depends on the "
    "arguments."
)
_REQUIREMENT = re.compile(r"([\w.-]+)[^;]*(?:; extra == [\"'](.+)[\"'])?")
_SENTENCE_END = re.compile(r"(?<=[a-z)\]])\. (?=[A-Z])|  ")


def list_plugins(
    kind: Annotated[str | None, options.argument("KIND", "llm, prm, calibrator, dataset, strategy or metric.")] = None,
    name: Annotated[str | None, options.argument("NAME", "A plugin of this kind.")] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of a grid file instead.")] = False,
    plugin: options.PluginOption = None,
) -> None:
    """List the plugins, the arguments of one, or what a grid file can say.

    Editors use the JSON Schema for completion and errors: write it to a file, and name the file in the first line of a
    grid.
    """
    options.load_plugins(plugin)
    if schema and kind is not None:
        raise PrmcalError("--schema describes the whole grid file. Leave out KIND and NAME.")
    text = json.dumps(grid_schema(), indent=1, ensure_ascii=False) if schema else render_plugins(kind, name)
    typer.echo(text)


def render_plugins(kind: str | None, name: str | None = None) -> str:
    """Return the registered plugins: all in lines, one kind with sources, or one plugin with its arguments.

    The table of the calibrators has the features, the levels and the cost of each.
    """
    if kind is not None:
        options.one_of("KIND", kind, list(KINDS))
    if kind is not None and name is not None:
        return _arguments(kind, name)
    if kind == "calibrator":
        rows = [[name, *_calibrator_row(name)] for name in calibrators.names()]
        table = text_table(["calibrator", "reads", "levels", "trains the PRM", "source"], rows)
        return f"{table}\n\n{wrapped(_LEGEND)}"
    if kind is not None:
        rows = [[name, *_about(kind, name)] for name in KINDS[kind].names()]
        return text_table([kind, "what it is", "source"], rows)
    tables = []
    for plugin_kind, registry in KINDS.items():
        names = tuple(registry.names())
        about = tuple(_about(plugin_kind, plugin_name)[0] for plugin_name in names)
        tables.append(fit([Column(plugin_kind, names), Column("", about, text=True)]).text)
    return "\n\n".join([*tables, wrapped("Sources: prmcal list KIND. Arguments: prmcal list KIND NAME.")])


def _about(kind: str, name: str) -> tuple[str, str]:
    """Return the description of a plugin (the first sentence of its class) and its source."""
    try:
        cls = KINDS[kind].get(name)
    except PluginError as error:
        return str(error), ""
    text = inspect.cleandoc(cls.__doc__ or "").replace("``", "").replace("\n", " ")
    source = f"{cls.citation} ({cls.known_by})" if cls.known_by else cls.citation
    return _SENTENCE_END.split(text)[0].rstrip("."), source


def _arguments(kind: str, name: str) -> str:
    """Return the description of a plugin, and its arguments with their types, defaults and meanings."""
    cls = KINDS[kind].get(name)
    schema, meanings = arguments_model(cls).model_json_schema(), documented_arguments(cls)
    rows = [
        [
            argument,
            type_in_words(allowed).replace("`", ""),
            "required" if argument in schema.get("required", ()) else json.dumps(allowed.get("default")),
            re.sub(r":\w+:`~?([^`]+)`|``", r"\1", meanings.get(argument, "")),
        ]
        for argument, allowed in schema["properties"].items()
    ]
    paragraphs = [inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0], f"{cls.__module__}:{cls.__qualname__}"]
    table = text_table(["argument", "type", "default", "meaning"], rows) if rows else "It takes no arguments."
    return "\n\n".join([*map(wrapped, paragraphs), table])


def _calibrator_row(name: str) -> tuple[str, str, str, str]:
    """Return the features of a calibrator, its levels, its training passes and its source. No model is loaded."""
    try:
        cls = calibrators.get(name)
    except PluginError as error:
        return "?", "?", "?", str(error)
    built: Calibrator | type[Calibrator] = cls
    with suppress(PluginError):  # It may need arguments. Its class says what does not depend on them.
        built = calibrators.create(name)
    levels = trains = _GIVEN
    if isinstance(built, Calibrator):
        levels = ", ".join(f"{level:g}" for level in built.levels)
        levels = "any" if built.any_level else "point" if built.levels == (0.5,) else levels
    if isinstance(passes := built.training_passes, int):
        trains = f"{passes} passes" if passes > 1 else "1 pass" if passes else "no"
    reads = built.reads if isinstance(built.reads, str) else _GIVEN
    return reads, levels, trains, _about("calibrator", name)[1]


def doctor(
    grid: Annotated[str | None, options.argument("GRID", "A grid file (YAML), or the name of a shipped grid.")] = None,
    plugin: options.PluginOption = None,
) -> None:
    """Show what is installed, and what a grid needs.

    It lists the packages and the hardware. With GRID it also lists what the grid still needs. It reads the grid's files
    and the headers of its checkpoints, and sends one request to each of its servers.
    """
    machine = [[name, str(value)] for name, value in hardware().items()]
    machine.append(["free_disk_gib", f"{shutil.disk_usage(Path.cwd()).free / 2**30:.1f}"])
    machine += [["GPU", line] for line in describe_gpus("memory.used") or ["none"]]
    typer.echo(f"Python {sys.version.split()[0]}, prmcal {prmcal.__version__}\n")
    typer.echo(f"{text_table(['package', 'version', 'extra'], _packages())}\n")
    typer.echo(text_table(["machine", ""], machine))
    if grid is not None and _needs(options.load_grid(grid, None, plugin)):
        raise typer.Exit(ExitCode.FAILED_CHECKS)


def _needs(grid: GridSpec) -> dict[str, int]:
    """Print a line for each plugin of a grid, with its needs on this machine. Return the numbered needs.

    No model is loaded or downloaded. Data sets are read, so they may be downloaded from the hub.
    """
    needs: dict[str, int] = {}
    rows = []
    entries = [(kind, spec) for kind, specs in grid.entries.items() for spec in specs]
    questions: Questions = {}
    problems_of = {  # Data sets come first, since the others need their questions.
        id(spec): [*_problems(kind, spec, grid, questions)]
        for kind, spec in sorted(entries, key=lambda entry: entry[0] != "dataset")
    }
    try:
        impossible_pairs = [*pair_problems(build_plan(grid, stand_ins=True))]
    except PrmcalError:
        impossible_pairs = []  # The plugin or the data set that cannot be used has a line of its own.
    for kind, spec in entries:
        problems = [*problems_of[id(spec)]]
        if kind == "calibrator":
            problems += [" ".join(str(problem).split()) for problem in impossible_pairs if problem.name == spec.name]
        numbers = [needs.setdefault(problem, len(needs) + 1) for problem in problems]
        state = f"needs {', '.join(map(str, numbers))}" if numbers else "ready"
        has_weights = kind in ("llm", "prm") and spec.plugin in KINDS[kind].names()
        parameters = billions(checkpoint_of(kind, spec.reference())) if has_weights else None
        size = "" if parameters is None else f"{2 * parameters:g} GB"
        gpus = spec.reference().gpus
        gpus = len(visible_gpus()) if gpus == ALL_GPUS else gpus
        spread = f" on {gpus} GPUs" if size and gpus > 1 else ""
        rows.append([kind, spec.name, size + spread, state])
    lines = [text_table([f"grid {grid.name}", "name", "weights", "state"], rows)]
    lines += [wrapped(f"{number}. {need}", hanging="   ") for need, number in needs.items()]
    if any("hf download" in need for need in needs):
        licence = "models behind a licence, such as Llama, also need `hf auth login` before the download."
        lines.append(wrapped(f"Note: {licence}"))
    typer.echo("\n".join(["", *lines]))
    return needs


def _problems(kind: str, spec: PluginSpec, grid: GridSpec, questions: Questions) -> Iterator[str]:
    """Yield missing things for a plugin of a grid on this machine, with advice for each.

    `questions` are of the data sets that were read before. The questions of this data set are added.
    """
    try:
        plugin = KINDS[kind].create(spec.plugin, **spec.arguments)
        if isinstance(spec, DatasetSpec):
            dataset_questions = plugin.questions(spec.split, spec.questions)[: grid.limit]
            questions[spec.name, spec.split] = plugin, dataset_questions
    except PrmcalError as error:
        yield " ".join(str(error).split())
        return
    for problem in plugin_problems(kind, spec.name, plugin, asked_solutions(grid, questions, spec.name)):
        yield " ".join(str(problem.error).split())
    for checkpoint in absent_checkpoints(plugin):
        yield f"{checkpoint} is not on this machine: hf download {checkpoint.partition('@')[0]}"


def _packages() -> list[list[str]]:
    """Return name, version and extra of the packages that prmcal requires, without the development tools."""
    try:
        requirements = metadata.requires("prmcal") or []
    except metadata.PackageNotFoundError:  # a checkout that is not installed
        return [["prmcal", "not installed", ""]]
    matches = [match.groups(default="") for line in requirements if (match := _REQUIREMENT.fullmatch(line))]
    return [[name, _version(name), extra] for name, extra in matches if extra != "dev"]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
