"""Grid files of strangers: whatever is in them, they are planned, or refused with a message about the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given

from prmcal.errors import GridError, InvalidArgumentsError
from prmcal.harness.cli.check import check_plugins
from prmcal.harness.planning.planner import build_plan
from prmcal.harness.planning.reading import read_grid
from tests.mutations import FEW, changed, damaged, reads_or_refuses

GRID: dict[str, Any] = {
    "name": "small",
    "llms": [{"name": "a", "plugin": "transformers", "arguments": {"checkpoint": "nano:weak"}}],
    "prms": [{"name": "b", "plugin": "qwen", "arguments": {"checkpoint": "nano:prm"}}],
    "calibrators": ["isotonic", {"name": "ten", "plugin": "histogram", "arguments": {"bins": 10}}],
    "datasets": [{"name": "nano-math", "questions": 4}],
    "calibration": {"name": "nano-math", "questions": 4, "trajectories": 2, "follow_ups": 2},
    "sampling": {"temperature": 0.7, "top_p": 0.9, "max_tokens": 64, "stop": ["x"]},
    "measurement": {"measured": 2, "follow_ups": 2, "bins": 5, "replicates": 100},
    "scaling": {"samples": 4, "targets": [0.9], "levels": [0.1]},
    "strategies": ["best-of-n", {"name": "n", "plugin": "best-of-n + IAS", "prms": ["b"]}],
    "shards": {"questions": 2, "trajectories": 2},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mutated")


def use(path: Path) -> None:
    build_plan(read_grid(path), stand_ins=True)


@given(grid=changed(GRID))
@FEW
def test_changed_grids(grid: Any, folder: Path) -> None:
    path = folder / "changed.yaml"
    path.write_text(yaml.safe_dump(grid))
    reads_or_refuses(lambda: use(path))


@given(content=damaged(yaml.safe_dump(GRID).encode()))
@FEW
def test_damaged_grids(content: bytes, folder: Path) -> None:
    path = folder / "damaged.yaml"
    path.write_bytes(content)
    reads_or_refuses(lambda: use(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x: &x [*x]", "is not valid YAML: its lists and objects are nested too deeply"),
        ("x: " + "[" * 2000, "is not valid YAML: its lists and objects are nested too deeply"),
        ("x: 2001-99-99", "is not valid YAML: month must be in 1..12"),
        ("x: !!python/object:os.system", "is not valid YAML: could not determine a constructor"),
        ("x: \xff", "cannot be read: it is not UTF-8 text"),
    ],
    ids=[
        "circle",
        "nested",
        "date",
        "code",
        "no UTF-8",
    ],
)
def test_texts_that_break(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "grid.yaml"
    path.write_bytes((yaml.safe_dump(GRID) + text).encode("latin-1"))
    with pytest.raises(GridError) as caught:
        read_grid(path)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"limit": 10**12}, "'limit': Input should be less than or equal to 1000000"),
        (
            {"scaling": {"samples": 10**15}},
            "'scaling.samples': Input should be less than or equal to 1000000",
        ),
        ({"measurement": {"bins": 10**9}}, "'measurement.bins': Input should be less than or equal to 10000"),
        (
            {"sampling": {"temperature": float("inf")}},
            "'sampling.temperature': Input should be less than inf",
        ),
        ({"prms": [{"name": f"p{n}"} for n in range(1001)]}, "'prms': List should have at most 1000 items"),
        ({"name": "x" * 1000}, "'name': String should have at most 200 characters"),
        (
            {"calibrators": [{"name": "x", "arguments": {"bins": float("nan")}}]},
            "'calibrators.0.arguments': only texts, finite numbers",
        ),
    ],
)
def test_more_than_a_machine_can_run_is_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text(yaml.safe_dump(GRID | changes))
    with pytest.raises(GridError) as caught:
        read_grid(path)
    assert message in str(caught.value)


def test_an_argument_of_check_that_is_not_yaml() -> None:
    with pytest.raises(InvalidArgumentsError, match="The value of --argument checkpoint is not valid YAML"):
        check_plugins("qwen", "prm", ["checkpoint=["])
