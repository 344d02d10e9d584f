"""The reference of the commands, from the options of the command line."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import typer

from docs.generators.markdown import code, table
from prmcal.harness.cli.app import app


def commands_reference() -> str:
    """Return a section for each command, in the order of the help."""
    group: Any = typer.main.get_command(app)
    commands = [group.get_command(None, name) for name in group.list_commands(None)]
    return "\n".join(_section(command) for command in commands if not command.hidden)


def _section(command: Any) -> str:
    name = command.name
    parameters = [parameter for parameter in command.params if not parameter.hidden]
    usage = " ".join(["prmcal", name, *filter(None, map(_usage, parameters))])
    sections = [f"## {code(f'prmcal {name}')}", command.help or "", f"```text\n{usage}\n```"]
    rows = [[code(_name(parameter)), parameter.help or "", _default(parameter)] for parameter in parameters]
    return "\n\n".join([*sections, table(["argument or option", "meaning", "default"], rows)] if rows else sections)


def _name(parameter: Any) -> str:
    value = parameter.metavar or parameter.name.upper()
    if parameter.param_type_name == "argument":
        return str(value)
    names = [*parameter.opts, *parameter.secondary_opts]
    return ", ".join(names) if parameter.is_flag else f"{', '.join(names)} {value}"


def _usage(parameter: Any) -> str:
    """Return how a parameter is written on the command line; options in short, but those that are required."""
    if parameter.param_type_name == "option":
        return f"{parameter.opts[0]} {parameter.metavar}" if parameter.required else ""
    name = _name(parameter) + ("..." if parameter.nargs != 1 else "")
    return name if parameter.required else f"[{name}]"


def _default(parameter: Any) -> str:
    default = parameter.default
    if parameter.required:
        return "required"
    return code(default) if isinstance(default, (int, float, str, PurePath)) and default is not False else ""
