"""An address where a folder or a file is needed is one error, which does not show the password."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest

from prmcal.harness.cli import entry
from prmcal.harness.cli.app import app
from prmcal.harness.cli.options import path_of
from tests.conftest import ROOT, Prmcal

ADDRESS = "postgresql://me:s3cret@localhost/x"
DRIVER = "postgresql+psycopg://me:s3cret@localhost/x"
NO_FOLDER = "An address was given where a folder or a file is needed."


def parameters() -> Iterator[tuple[str, Any, Any]]:
    """The parameters of all commands, with their types and what typer knows of them."""
    assert entry.COMMANDS
    for registered in app.registered_commands:
        assert registered.callback is not None
        for name, hint in get_type_hints(registered.callback, include_extras=True).items():
            for annotated in (hint, *get_args(hint)):
                if hasattr(annotated, "__metadata__"):
                    kind, known = get_args(annotated)
                    yield f"{registered.callback.__name__} {name}", kind, known


def test_every_path_is_parsed_by_the_same_function() -> None:
    paths = {name: known for name, kind, known in parameters() if "Path" in str(kind)}
    assert len(paths) > 30
    assert [name for name, known in paths.items() if known.parser is not path_of] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["merge", ADDRESS, "a"], f"{NO_FOLDER} To share results with a server, .* --database ADDRESS"),
        (["merge", "out", ADDRESS], NO_FOLDER),
        (
            ["merge", "out", "a", "--database", DRIVER],
            r"does not begin with postgresql\+psycopg://. Its form",
        ),
        (["merge", "out", "a", "--database", "me:s3cret@localhost/x"], "not the address of a database. Its"),
        (["verify", ADDRESS], NO_FOLDER),
        (["verify", "a", "--against", DRIVER], NO_FOLDER),
        (["submit", ADDRESS, "--out", "a.bundle"], NO_FOLDER),
        (["submit", "a", "--out", "mysql://me:s3cret@localhost/x"], NO_FOLDER),
        (["diff", "a", "POSTGRESQL://me:s3cret@localhost/x"], NO_FOLDER),
        (["plan", ADDRESS], NO_FOLDER),
        (["ask", ADDRESS, "1+1?"], NO_FOLDER),
        (["compare", "1", "2", "--dir", DRIVER], r"does not begin with postgresql\+psycopg://. Its form is"),
        (["leaderboard", "mysql://me:s3cret@localhost/x"], "does not begin with mysql://. Its form is"),
        (["leaderboard", "postgresql://me:a@s3cret@localhost/x"], "more than one '@'. Write %40"),
    ],
)
def test_an_address_in_the_wrong_place_is_one_error(
    arguments: list[str], message: str, prmcal: Prmcal
) -> None:
    told = prmcal(*arguments)
    refused = " ".join(told.stderr.split())
    assert (told.returncode, told.stdout) == (2, "")
    assert refused.startswith("prmcal: error: ")
    assert re.search(message, refused)
    assert "s3cret" not in refused and "Traceback" not in refused
    assert not (ROOT / "postgresql:").exists()
