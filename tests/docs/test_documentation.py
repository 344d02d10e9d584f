"""The documentation: it builds without a warning, no link is dead, and the examples work as they are printed."""

from __future__ import annotations

import html
import json
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import jsonschema
import pytest
import typer
import yaml

from docs.generators.commands import commands_reference
from docs.generators.grid_file import grid_reference
from docs.generators.pages import DETAILS, PARTS, filled
from prmcal.harness.cli.app import COMMANDS, app
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.reading import type_in_words
from prmcal.registry.plugins import KINDS
from tests.conftest import ROOT, Prmcal, environment
from tests.forked import run_command
from tests.measured import DESCRIBED

PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "CONTRIBUTING.md", ROOT / "README.md"])
FILES = re.compile(r"runs/|mine\.yaml|my_plugins\.py")
"""The names of files and folders in the commands of the tutorials."""


def blocks(language: str, *pages: Path) -> list[str]:
    """The blocks of code in a language, on some pages or on all."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages or PAGES)
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def commands(*pages: Path) -> list[str]:
    """The commands of prmcal in blocks, and in sentences if no pages are given."""
    found = [line for block in blocks("sh", *pages) for line in block.splitlines() if line.startswith("prmcal ")]
    if not pages:
        text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
        found += re.findall(r"`(prmcal [a-z][^`|]*)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return [line.partition(" #")[0].partition(" > ")[0] for line in dict.fromkeys(found)]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the pages that `make docs` builds. A warning, such as a reference to nothing, is an error."""
    folder = tmp_path_factory.mktemp("pages")
    options = ["-q", "-W", "--keep-going", "--fresh-env", "-d", str(folder / "doctrees")]
    options += ["-D", "toc_object_entries=0"]  # Lists of functions beside each page take a fifth of the time.
    code = "import sys; from sphinx.cmd.build import main; sys.exit(main(sys.argv[1:]))"
    done = run_command([*options, "docs", str(folder / "html")], environment(), ROOT, code)
    assert done.returncode == 0, done.stderr
    return folder / "html"


class Page(HTMLParser):
    """What a page links to, and the places in it that can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            if name == "id" and value:
                self.places.add(value)


def test_every_link_leads_to_a_file_and_a_place(built: Path) -> None:
    pages = {path.resolve(): Page(path) for path in built.rglob("*.html")}
    assert len(pages) > 25
    dead = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                assert parts.scheme in ("https", "data", "mailto"), link
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = unquote(parts.fragment)
            if not target.exists() or (place and target in pages and place not in pages[target].places):
                dead.append(f"{path.name}: {link}")
    assert not dead


def test_pages_need_no_network_and_show_equations_without_scripts(built: Path) -> None:
    for path in built.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"<(script|img|iframe)[^>]* src=\"(https?:)?//", text)
        assert not re.search(r"<link[^>]* rel=\"stylesheet\"[^>]* href=\"(https?:)?//", text)
    assert "<mfrac>" in (built / "concepts" / "strategies.html").read_text(encoding="utf-8")


def test_what_exists_is_on_the_pages(built: Path) -> None:
    page = (built / "reference" / "supported.html").read_text(encoding="utf-8")
    supported = html.unescape(re.sub(r"<[^>]+>", "", page))
    for registry in KINDS.values():
        for name, target in registry.names().items():
            assert not target.startswith("prmcal.") or f"\n{name}\n" in supported
    assert all(metric.description in supported for metric in list(DESCRIBED.values())[:10])
    listed, grids = commands_reference(), grid_reference()
    group: Any = typer.main.get_command(app)
    assert all(f"## `prmcal {name}`" in listed for name in group.commands)
    assert {name: group.get_command(None, name).get_short_help_str(100) for name in group.commands} == {
        name: sentence for section in COMMANDS.values() for name, (_, sentence) in section.items()
    }
    assert all(f"| `{field}` |" in grids for field in GridSpec.model_fields)


def test_the_parts_that_are_written_from_the_code_are_on_pages_and_current() -> None:
    pages = {path: path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")}
    assert [path.name for path, text in pages.items() if filled(text) != text] == [], "Run `python -m docs.generators`."
    text = "\n".join(pages.values())
    assert set(re.findall(r"<!-- generated: ([a-z ]+) -->", text)) == set(PARTS)
    assert set(re.findall(r"<!-- details: ([a-z ]+) -->", text)) == set(DETAILS)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer", "minimum": 1}, "integer, at least 1"),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, "number, above 0 and below 1"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer"),
        ({"type": "array", "items": {"type": "string"}}, "list of: text"),
        ({"enum": ["a", "b"]}, "`a` or `b`"),
    ],
)
def test_types_are_written_in_words(schema: dict[str, Any], words: str) -> None:
    assert type_in_words(schema) == words


def test_grids_on_the_pages_are_valid() -> None:
    schema = json.loads((ROOT / "grids" / "grid.schema.json").read_text(encoding="utf-8"))
    whole, part = (
        jsonschema.Draft7Validator(schema),
        jsonschema.Draft7Validator(schema | {"required": [], "anyOf": [{}]}),
    )
    grids = [yaml.safe_load(block) for block in blocks("yaml")]
    assert len(grids) > 8
    for grid in grids:
        (whole if "name" in grid and "llms" in grid else part).validate(grid)
        if "name" in grid and "llms" in grid:
            GridSpec.model_validate(grid)


@pytest.mark.parametrize("line", commands())
def test_commands_on_the_pages_have_these_arguments_and_options(line: str) -> None:
    group: Any = typer.main.get_command(app)
    _, name, *arguments = shlex.split(line)
    if name.startswith("-") or name == "COMMAND":
        return
    command = group.get_command(None, name)
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    given = [each.partition("=")[0] for each in arguments if re.match(r"--?[a-z]", each)]
    assert set(given) <= options | {"-h", "--help"}
    if any(line in block.splitlines() for block in blocks("sh")):
        command.make_context(name, arguments)


def test_the_tutorials_work_as_they_are_printed(tmp_path: Path, prmcal: Prmcal) -> None:
    names = ("score-my-prm", "add-a-calibrator", "read-the-leaderboard")
    score, add, read = (ROOT / "docs" / "tutorials" / f"{name}.md" for name in names)
    # The grid has the calibrator of the second tutorial from the beginning, so one run of two questions is enough.
    grid = yaml.safe_load(blocks("yaml", score)[0]) | yaml.safe_load(blocks("yaml", add)[0])
    grid["measurement"] |= {"measured": 2, "follow_ups": 2, "replicates": 200}
    grid["calibration"] |= {"trajectories": 2, "follow_ups": 2}
    grid["scaling"]["samples"] = 4
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(grid), encoding="utf-8")
    (tmp_path / "my_plugins.py").write_text(blocks("python", add)[0], encoding="utf-8")

    def typed(line: str) -> None:
        """Type a command in the folder. The run of the whole nano grid is that of the tutorials here."""
        for whole, small in {
            "runs/nano": "runs/mine",
            "nano-prm": "my-prm",
            "quantile-lora": "my-platt",
        }.items():
            line = line.replace(whole, small)
        words = [str(tmp_path / each) if FILES.match(each) else each for each in shlex.split(line)[1:]]
        done = prmcal(*words, *(["--limit", 2, "--workers", 1] if words[0] == "run" else []))
        assert done.returncode == 0, f"{line}: {done.stderr}"

    (run,) = (line for line in commands(add) if line.startswith("prmcal run"))
    typed(run)
    for command in ("leaderboard", "compare", "show"):
        lines = [line for line in commands(score, add, read) if line.split()[1] == command]
        assert lines
        for line in lines:
            typed(line)
    *reading, starting = blocks("python", ROOT / "docs" / "how-to" / "notebook.md")
    assert "prmcal.run(" in starting  # It would run the grid again; tests/harness/notebook tests it.
    script = "\n".join(reading).replace("runs/nano", "runs/mine")
    done = run_command([], environment(), tmp_path, script)
    assert done.returncode == 0, done.stderr
