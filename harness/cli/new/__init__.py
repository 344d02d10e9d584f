"""``prmcal new``: begin a plugin with a class that passes its checks, and with its test."""

import re
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from prmcal.errors import PrmcalError
from prmcal.harness.cli.options import argument, one_of, option
from prmcal.registry.messages import reading
from prmcal.registry.plugins import KINDS

_KINDS = ("prm", "calibrator", "llm", "dataset")
_FOLDER = Path(__file__).parent
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def new(
    kind: Annotated[str, argument("KIND", "prm, calibrator, llm or dataset.")],
    name: Annotated[str, argument("NAME", "The name of the plugin in a grid, such as my-prm.")],
    out: Annotated[Path, option("FOLDER", "The folder of the new files.")] = Path(),
) -> None:
    """Begin a plugin: write a class that passes the checks, and its test.

    The file marks the places to fill in.
    """
    one_of("KIND", kind, list(_KINDS))
    if not _NAME.fullmatch(name):
        raise PrmcalError(f"A name has small letters, digits and hyphens, such as my-{kind}. Got '{name}'.")
    if name in KINDS[kind].names():
        raise PrmcalError(f"There is a {kind} '{name}' already: prmcal list {kind}. Choose another name.")
    module = name.replace("-", "_")
    plugin_file, test_file = out / f"{module}.py", out / f"test_{module}.py"
    words = {"name": name, "module": module, "file": plugin_file.name, "class_name": module.title().replace("_", "")}
    for path, template in ((plugin_file, kind), (test_file, "test")):
        text = (_FOLDER / f"{template}.txt").read_text(encoding="utf-8")
        with (
            reading(f"{path} cannot be written", "Choose another name, or another --out FOLDER.", kind=PrmcalError),
            path.open("x", encoding="utf-8") as file,
        ):
            file.write(Template(text).substitute(words))
    typer.echo(f"Wrote {plugin_file} and {test_file}.\nNext: prmcal check {plugin_file}")
