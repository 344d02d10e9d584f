"""``prmcal.run`` and ``prmcal.open_run``, as a script and a notebook use them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import prmcal
from prmcal.db import catalog
from prmcal.db.run_folder import published_path
from prmcal.errors import (
    GridError,
    IncomparableCellsError,
    InvalidPluginError,
    PluginError,
    PrmcalError,
    RunError,
    UnknownCellError,
    UnknownPluginError,
)
from prmcal.harness.cli.leaderboard import render_leaderboard
from prmcal.registry.contracts.plugin import Plugin
from prmcal.registry.plugins import KINDS, calibrators
from tests.conftest import PLUGINS, environment

SYNTHETIC = PLUGINS / "synthetic.py"
GRID: dict[str, Any] = yaml.safe_load((PLUGINS / "synthetic.yaml").read_text()) | {
    "llms": [{"name": "weak", "plugin": "synthetic-llm", "arguments": {"skill": 0.7}}],
    "calibrators": ["uncalibrated", "isotonic"],
    "calibration": {"name": "synthetic-questions", "questions": 10, "trajectories": 2, "follow_ups": 4},
    "datasets": [{"name": "synthetic-questions", "questions": 10}],
    "measurement": {"measured": 2, "follow_ups": 4, "replicates": 100},
    "scaling": {"samples": 4, "targets": [0.9, 0.99], "levels": [0.1]},
}
CELLS = 8


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The output folder of a script of two lines, without a guard for its main module, and what it printed."""
    folder = tmp_path_factory.mktemp("script")
    (folder / "grid.yaml").write_text(yaml.safe_dump(GRID))
    (folder / "script.py").write_text(
        f"import prmcal\nprint(prmcal.run('grid.yaml', 'out', workers=1, plugins=[{str(SYNTHETIC)!r}]))\n"
    )
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=600,
    )
    return folder / "out", done


@pytest.fixture(scope="module")
def opened(small_run: Path) -> prmcal.Run:
    """A finished run on both leaderboards, with cells that failed."""
    return prmcal.open_run(small_run)


def test_a_script_of_two_lines_runs_a_grid_and_prints_what_it_is_asked_for(
    script: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    out, done = script
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout == f"Run of the grid 'synthetic' in out: {CELLS} cells, {CELLS} done\n"
    assert len(prmcal.open_run(out).cells) == CELLS


@pytest.mark.parametrize("grid", [GRID, prmcal.GridSpec.model_validate(GRID)], ids=["dict", "GridSpec"])
def test_a_grid_is_a_file_data_or_a_spec_and_finished_work_is_kept(
    grid: Any, script: tuple[Path, subprocess.CompletedProcess[str]], capfd: pytest.CaptureFixture[str]
) -> None:
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    before = dict(os.environ)
    again = prmcal.run(grid, script[0], plugins=[SYNTHETIC])
    assert (again.cells["status"] == "done").all()
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert dict(os.environ) == before
    assert capfd.readouterr() == ("", "")


def test_a_leaderboard_is_the_one_of_the_command(opened: prmcal.Run) -> None:
    for table in ("calibration", "scaling"):
        found = opened.leaderboard(table)
        assert found.to_csv(index=False, lineterminator="\n") == render_leaderboard(opened.directory, table, "csv")


def test_a_leaderboard_is_filtered_by_one_name_or_several(opened: prmcal.Run) -> None:
    board = opened.leaderboard()
    assert set(opened.leaderboard(calibrator="isotonic")["calibrator"]) == {"isotonic"}
    both = ["isotonic", "uncalibrated"]
    assert set(opened.leaderboard(calibrator=both)["calibrator"]) == set(both)
    assert len(opened.leaderboard(llm=board["llm"].iloc[0])) < len(board)


def test_the_ranking_is_that_of_the_overview(opened: prmcal.Run) -> None:
    overview, table = catalog.overview(published_path(opened.directory)), opened.ranking()
    assert [each.calibrator for each in overview.ranking] == table["calibrator"].tolist()
    assert table["rank"].tolist() == sorted(table["rank"])
    first = overview.ranking[0]
    assert table["brier"].iloc[0] == first.brier.value
    assert table["brier_high"].iloc[0] == first.brier.high
    baseline = table.set_index("calibrator").loc[overview.baseline]
    assert baseline.isna()["brier_reduction"]
    llm = overview.cells["llm"].iloc[0]
    assert opened.ranking(llm=llm)["settings"].max() < table["settings"].max()


def test_a_cell_is_named_by_number_id_or_part(opened: prmcal.Run) -> None:
    cell = opened.cells.iloc[0]
    by_id = opened.trajectories(cell["cell_id"])
    assert len(by_id) > 0
    for name in (int(cell["number"]), f"#{cell['number']}", cell["cell_id"].replace("/", " ")):
        assert opened.trajectories(name).equals(by_id)
    question = by_id["question_id"].iloc[0]
    assert set(opened.trajectories(1, question)["question_id"]) == {question}
    assert len(opened.trajectories(1, limit=2)) == 2
    assert len(opened.prefixes(1, question)) > 0
    with pytest.raises(UnknownCellError, match=r"There is no cell '#?999'"):
        opened.trajectories(999)


def test_a_comparison_is_shown_as_a_table(opened: prmcal.Run) -> None:
    board = opened.leaderboard()
    place = board[board["status"] == "done"].groupby(["dataset", "llm", "prm"])["number"].apply(list).iloc[0]
    found = opened.compare(place[0], place[1])
    table = found.table.set_index("metric")
    brier = table.loc["brier"]
    assert brier["difference"] == pytest.approx(brier["b"] - brier["a"])
    assert brier["low"] <= brier["difference"] <= brier["high"]
    assert found.a["cell_id"] in repr(found)
    with pytest.raises(IncomparableCellsError, match=r"is given twice\. Name two cells"):
        opened.compare(place[0], place[0])


@pytest.mark.parametrize(
    ("grid", "error", "message"),
    [
        ("nanno", GridError, "no shipped grid of that name. Did you mean 'nano'?"),
        ({**GRID, "prm": []}, GridError, "The grid: unknown key 'prm'. Did you mean 'prms'?"),
        ({**GRID, "calibrators": ["isotonik"]}, PluginError, "Did you mean 'isotonic'?"),
    ],
)
def test_a_wrong_grid_raises_the_error_of_the_command(
    grid: Any, error: type[PrmcalError], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        prmcal.run(grid, tmp_path / "out", plugins=[SYNTHETIC])
    assert not (tmp_path / "out" / "run.json").exists()


def test_a_folder_without_a_run_raises_the_error_of_the_command(tmp_path: Path, opened: prmcal.Run) -> None:
    with pytest.raises(RunError, match=r"No grid was run in .*\. Start one: prmcal run GRID --out"):
        prmcal.open_run(tmp_path)
    with pytest.raises(PrmcalError, match=r"'table' must be one of calibration, scaling\. Got 'speed'"):
        opened.leaderboard("speed")  # type: ignore[arg-type]


def test_a_plugin_of_the_notebook_is_refused(tmp_path: Path) -> None:
    class Mine(calibrators.get("isotonic")):  # type: ignore[misc]
        """A class as it is defined in a cell of a notebook."""

    Mine.__module__ = "__main__"
    before = dict(calibrators._registered)
    calibrators.register("mine")(Mine)
    try:
        with pytest.raises(PluginError, match=r"'mine' is defined in __main__.* plugins=\[\"my_plugins.py\"\]"):
            prmcal.run({**GRID, "calibrators": ["mine"]}, tmp_path / "out", plugins=[SYNTHETIC])
    finally:
        calibrators._registered = before


def test_an_edited_plugin_file_is_loaded_again(tmp_path: Path) -> None:
    path, content = tmp_path / "edited.py", SYNTHETIC.read_text()
    names = re.findall(r'@(\w+)\("([\w-]+)"\)', content)
    for _, name in names:
        content = content.replace(f'("{name}")', f'("edited {name}")')
    grid = {**GRID, "datasets": ["absent"]}  # Loading comes before the grid is planned, which is refused.
    identities: list[dict[str, Any]] = []
    for text in (content, content.replace("longest: int = 5", "longest: int = 6"), "raise ValueError('no')"):
        path.write_text(text)
        os.utime(path, ns=(len(identities), len(identities)))
        error = InvalidPluginError if text.startswith("raise") else UnknownPluginError
        with pytest.raises(error):
            prmcal.run(grid, tmp_path / "out", plugins=[path])
        if error is UnknownPluginError:
            plugin: Plugin = KINDS["dataset"].create("edited synthetic-questions")
            identities.append(plugin.identity())
    assert [each["arguments"] for each in identities] == [{"longest": 5}, {"longest": 6}]
    assert identities[0]["source"] != identities[1]["source"]
    assert "edited synthetic-questions" not in KINDS["dataset"].names()


def test_the_example_of_the_package_is_right(opened: prmcal.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert prmcal.__doc__ is not None
    block = prmcal.__doc__.partition("notebook:\n\n")[2].partition("\n\nAnswer")[0]
    code = "\n".join(line.removeprefix("    ") for line in block.splitlines())
    monkeypatch.setattr("prmcal.harness.notebook.run", lambda *_, **__: opened)
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["run"] is opened
    assert len(names["board"]) > 0
    assert len(code.splitlines()) == 9
