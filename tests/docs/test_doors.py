"""Readers find a page by its door, newcomers get a command, and what is said about installing holds."""

from __future__ import annotations

import re
import subprocess

import prmcal
from benchmarks.documents.figures import load
from benchmarks.documents.sentences import PLACES
from tests.conftest import ROOT

DOCS = ROOT / "docs"
DOORS = ("Audit my scores", "Add my plugin", "Run a grid", "Use a calibrated PRM", "Share")


def toctrees() -> dict[str, list[str]]:
    """The pages of each caption of the list of pages, and those without a caption under ""."""
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    found = {}
    for block in re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL):
        options, _, pages = block.partition("\n\n")
        caption = re.search(r":caption: (.*)", options)
        found[caption[1] if caption else ""] = pages.split()
    return found


def texts() -> dict[str, str]:
    """The tracked files that users read or that print something, without this test and the history."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    named = [name for name in listed.stdout.split() if not name.startswith(("tests/", "src/", "CHANGELOG"))]
    kinds = (".md", ".py", ".html", ".yml", ".yaml", ".toml", ".ipynb", "Makefile")
    return {name: (ROOT / name).read_text(encoding="utf-8") for name in named if name.endswith(kinds)}


def test_every_page_is_in_one_door_and_begins_with_a_question() -> None:
    trees = toctrees()
    assert set(DOORS) < set(trees)
    listed = [page for pages in trees.values() for page in pages]
    assert sorted(listed) == sorted(
        str(path.relative_to(DOCS).with_suffix("")) for path in DOCS.rglob("*.md") if path.stem != "index"
    )
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    for door in DOORS:
        section = index.partition(f"## {door}\n")[2].partition("\n## ")[0]
        assert all(f"({page}.md)" in section for page in trees[door]), door
    for page in listed:
        path = ROOT / "CONTRIBUTING.md" if page == "contributing" else DOCS / f"{page}.md"
        assert "?**" in path.read_text(encoding="utf-8").split("\n\n")[1].replace("\n", " "), page


def test_each_answer_for_newcomers_has_a_command_and_a_link() -> None:
    _, *answers = (DOCS / "faq.md").read_text(encoding="utf-8").split("\n## ")
    for answer in answers:
        question, _, body = answer.partition("\n\n")
        prose, block, code = body.partition("```sh\n")
        assert "?" in question
        assert block and code.startswith("prmcal "), question
        assert re.search(r"\]\([\w/-]+\.md", prose), question


def test_nothing_promises_a_package_index() -> None:
    for name, text in texts().items():
        assert not re.search(r"(?<!\")prmcal\[|pip install (--upgrade )?[\"']?prmcal(?!-)", text), name
    version = re.escape(prmcal.__version__)
    for name, text in texts().items():
        for wheel in re.findall(r"prmcal-(\d[\w.]*)-py3", text):
            assert re.fullmatch(version, wheel), f"{name} names the wheel of {wheel}"


def test_times_agree() -> None:
    whole = re.findall(r"about \d+ minutes on two\s+cores", PLACES["duration"](load()))
    said = {" ".join(each.split()) for each in whole} | {"under five minutes on two cores"}
    for name in (
        "README.md",
        "CONTRIBUTING.md",
        "Makefile",
        "docs/start.md",
        "grids/demo.yaml",
        "grids/nano.yaml",
    ):
        text = " ".join((ROOT / name).read_text(encoding="utf-8").split())
        for time in re.findall(r"(?:\w+ ){2}minutes on two cores", text):
            assert time in said, f"{name}: {time}"
