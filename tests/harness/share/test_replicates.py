"""Results of models that give other bytes in every run: replicates if the plugin or the grid says so."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from prmcal.db.catalog import cells
from prmcal.db.run_folder import published_path
from prmcal.harness.execution.run import run_grid
from prmcal.harness.planning.reading import grid_of
from prmcal.registry.plugins import load_plugin_file
from tests.conftest import PLUGINS, Prmcal
from tests.harness.share.small_runs import GRID

PLUGIN = f"""
import os
from pathlib import Path
from prmcal import llm
from prmcal.registry.plugins import llms, load_plugin_file

load_plugin_file(Path("{PLUGINS / "synthetic.py"}"))

@llm("chance")
class Chance(llms.get("synthetic-llm")):
    deterministic = False

    def generate(self, prefixes, n, sampling, seed):
        return super().generate(prefixes, n, sampling, int.from_bytes(os.urandom(4), "big"))
"""


def run(out: Path, plugin: Path, **entry: Any) -> set[str]:
    """Run a small grid with the LLM, and return the keys of its artifacts."""
    load_plugin_file(plugin)
    changes = {"llms": [{"name": "chance", "plugin": "chance", **entry}], "league": False}
    changes |= {"calibrators": ["isotonic"], "datasets": GRID["datasets"][:1]}
    run_grid(grid_of(GRID | changes, "the grid"), out, 1, [plugin], stream=io.StringIO())
    return {path.parent.name for path in out.glob("artifacts/*/*/artifact.json")}


def test_results_of_a_model_that_is_not_deterministic_are_replicates(prmcal: Prmcal, tmp_path: Path) -> None:
    plugin = tmp_path / "chance.py"
    plugin.write_text(PLUGIN)
    runs = [tmp_path / "first", tmp_path / "second"]
    keys = [run(each, plugin) for each in runs]
    assert keys[0] == keys[1]
    told = prmcal("merge", tmp_path / "board", *runs)
    assert "several seeds or replicates, 0 of other versions or conditions, 0 in conflict." in " ".join(
        told.stdout.split()
    )
    assert "by models that are not deterministic" in " ".join(told.stdout.split())
    board = cells(published_path(tmp_path / "board"))
    assert not board["conflict"].any()
    assert set(board["conditions"]) == {"", "replicate 2"}

    # The grid has the last word, and it is part of no key.
    for each in runs:
        before = {path: path.stat().st_mtime_ns for path in each.glob("artifacts/*/*")}
        assert run(each, plugin, deterministic=True) == keys[0]
        assert {path: path.stat().st_mtime_ns for path in each.glob("artifacts/*/*")} == before
    told = prmcal("merge", tmp_path / "other", *runs)
    said = " ".join(told.stdout.split())
    assert "set 'deterministic: false' at it in the grid files" in said
    assert cells(published_path(tmp_path / "other"))["conflict"].all()
