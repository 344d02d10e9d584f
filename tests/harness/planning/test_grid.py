"""The grid file: what is accepted, and the one line that a mistake gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from prmcal.errors import GridError
from prmcal.harness.planning.grid import GridSpec
from prmcal.harness.planning.reading import read_grid

GRID = """
name: small
llms: [{name: a, plugin: transformers, arguments: {checkpoint: "nano:weak"}}]
prms: [{name: b, plugin: qwen, arguments: {checkpoint: "nano:prm"}}]
calibrators: [isotonic, {name: ten, plugin: histogram, arguments: {bins: 10}}]
datasets: [nano-math]
calibration: {name: nano-math, questions: 20}
"""


def read(tmp_path: Path, text: str) -> GridSpec:
    path = tmp_path / "grid.yaml"
    path.write_text(text)
    return read_grid(path)


def test_a_bare_name_is_the_plugin_of_that_name(tmp_path: Path) -> None:
    grid = read(tmp_path, GRID)
    assert [(each.name, each.plugin) for each in grid.calibrators] == [
        ("isotonic", "isotonic"),
        ("ten", "histogram"),
    ]
    assert grid.calibration.plugin == "nano-math"
    assert grid.calibration.split == "calibration"


def test_a_key_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GridError, match=r"the key 'calibrators' is given a second time in line \d+"):
        read(tmp_path, f"{GRID}\ncalibrators: [isotonic]\n")


def test_an_argument_of_a_plugin_outside_of_its_arguments_is_explained(tmp_path: Path) -> None:
    with pytest.raises(GridError, match="What a plugin takes belongs under `arguments`"):
        read(tmp_path, GRID.replace("plugin: qwen, arguments: {", "plugin: qwen, device: cpu, arguments: {", 1))


def test_a_file_or_checkpoint_beside_the_grid_is_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside, here = tmp_path / "beside", tmp_path / "here"
    (beside / "my-prm").mkdir(parents=True)
    (beside / "nano-math").mkdir()  # A folder that is no checkpoint is not what a name means.
    for folder, files in ((beside, ("both.jsonl", "far.jsonl", "my-prm/config.json")), (here, ("both.jsonl",))):
        folder.mkdir(exist_ok=True)
        for name in files:
            (folder / name).touch()
    monkeypatch.chdir(here)
    arguments = "plugin: jsonl, arguments: {path: [far.jsonl, both.jsonl, none.jsonl, my-prm, nano-math]}"
    grid = read(beside, GRID.replace("[nano-math]", f"[{{name: far.jsonl, {arguments}}}]"))
    (data,) = grid.datasets
    assert data.name == "far.jsonl"
    far = [str(beside / "far.jsonl"), "both.jsonl", "none.jsonl", str(beside / "my-prm"), "nano-math"]
    assert data.arguments["path"] == far


def test_a_grid_survives_being_written_down(tmp_path: Path) -> None:
    grid = read(tmp_path, GRID)
    assert GridSpec.model_validate(grid.model_dump(mode="json")) == grid


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name: small", "name: small\nsed: 3", "unknown key 'sed'. Did you mean 'seed'?"),
        ("name: small", "name: small\nseed: many", "'seed': Input should be a valid integer. Got 'many'."),
        ("datasets: [nano-math]", "datasets: []", "'datasets': List should have at least 1 item"),
        ("datasets: [nano-math]", "", "the key 'datasets' is missing"),
        ("[nano-math]", "[nano-math, nano-math]", "the name 'nano-math' is used twice"),
        (
            "name: small",
            "name: small\nscaling: {targets: [1.0]}",
            "'scaling.targets.0': Input should be less than 1",
        ),
        (
            "name: small",
            "name: small\nscaling: {levels: [0]}",
            "'scaling.levels.0': Input should be greater than 0",
        ),
        ("name: small", "name: small\nscaling: {samples: 4}", "measurement.measured (8) must not exceed"),
        ("questions: 20", "question: 20", "unknown key 'calibration.question'. Did you mean 'questions'?"),
        (
            "name: small",
            "name: small\nstrategies: [best-of-n, {name: best-of-n, arguments: {samples: 2}}]",
            "the name 'best-of-n' is used for two different strategies",
        ),
        ("name: small", "name: [", "not valid YAML"),
        ("name: small", "name: 7", "'name': Input should be a valid string. Got 7."),
        ("name: small", "name: a/b", "'name': String should match pattern"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(GridError) as caught:
        read(tmp_path, GRID.replace(old, new))
    assert message in str(caught.value)
    assert "grid.yaml" in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(GridError, match="cannot be read: No such file"):
        read_grid(tmp_path / "absent.yaml")
