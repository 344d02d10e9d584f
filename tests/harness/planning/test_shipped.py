"""Shipped grids by name, and files before names."""

from __future__ import annotations

from pathlib import Path

import pytest

from prmcal.errors import GridError
from prmcal.grids import shipped_grids
from prmcal.harness.cli.run import with_grader
from prmcal.harness.planning.reading import find_grid, grid_of, read_grid
from tests.conftest import ROOT, Prmcal


def test_every_grid_of_the_project_is_shipped_under_its_name() -> None:
    shipped = shipped_grids()
    assert set(shipped) == {path.stem for path in (ROOT / "grids").glob("*.yaml")}
    assert {name: read_grid(find_grid(name)).name for name in shipped} == {name: name for name in shipped}


@pytest.mark.parametrize("name", ["nano", "pools"])
def test_every_data_set_of_a_grid_and_of_its_parts_gets_a_further_grader(name: str) -> None:
    data = read_grid(find_grid(name)).model_dump(mode="json")
    grid = grid_of(with_grader(data, {"name": "letters", "plugin": "letter", "arguments": {}}), name)
    for whole in grid.wholes():
        for dataset in (*whole.datasets, whole.calibration):
            assert [grader.name for grader in dataset.graders] == ["default", "letters"]


def test_a_file_comes_before_a_name_and_a_folder_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "paper").mkdir()
    assert find_grid("paper") == shipped_grids()["paper"]
    (tmp_path / "nano").write_text("name: mine\n")
    assert find_grid("nano") == Path("nano")
    assert find_grid(str(tmp_path / "nano")) == tmp_path / "nano"


@pytest.mark.parametrize(
    ("given", "hint"),
    [("nnao", " Did you mean 'nano'?"), ("grids/papr.yaml", " Did you mean 'paper'?"), ("mine.yaml", "")],
)
def test_an_unknown_grid_is_refused_with_the_shipped_names(given: str, hint: str) -> None:
    with pytest.raises(GridError) as refused:
        find_grid(given)
    assert str(refused.value) == (
        f"There is no grid file {given} and no shipped grid of that name.{hint} The shipped grids are "
        "demo, hello, math500-prms, math500-small, nano, paper, paper-native, pools, published, recorded, smollm."
    )


def test_commands_take_the_name_of_a_shipped_grid(prmcal: Prmcal, tmp_path: Path) -> None:
    by_name, by_path = prmcal("plan", "nano"), prmcal("plan", ROOT / "grids" / "nano.yaml")
    assert by_name.returncode == 0, by_name.stderr
    assert by_name.stdout == by_path.stdout
    refused = prmcal("run", "nnao", "--out", tmp_path / "out")
    assert refused.returncode == 2 and "Did you mean 'nano'?" in refused.stderr
    assert not (tmp_path / "out").exists()
