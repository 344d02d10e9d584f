"""Grid files of strangers: whatever is in them, they are planned, or refused with a message about the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

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
LARGE = st.sampled_from([10**6, 10**7, 10**12, 10**400, 2**63, -1, 1.5, float("inf"), float("nan"), True])


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


@given(part=st.sampled_from([name for name, part in GRID.items() if isinstance(part, dict)]), data=st.data())
@FEW
def test_numbers_beyond_all_bounds(part: str, data: st.DataObject, folder: Path) -> None:
    numbers = [name for name, value in GRID[part].items() if isinstance(value, int)]
    chosen = data.draw(st.lists(st.sampled_from(numbers or [*GRID[part]]), min_size=1, unique=True))
    path = folder / "large.yaml"
    path.write_text(
        yaml.safe_dump({**GRID, part: {**GRID[part], **{name: data.draw(LARGE) for name in chosen}}})
    )
    reads_or_refuses(lambda: use(path))


ALIASES = "\n".join(
    ["x0: &x0 [1, 1]", *(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 10)}]" for n in range(1, 12))]
)
MERGES = "\n".join(
    ["x0: &x0 {a: 1}", *(f"x{n}: &x{n}\n  <<: [{', '.join([f'*x{n - 1}'] * 10)}]" for n in range(1, 12))]
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ALIASES, "is not valid YAML: it has more than 100,000 values"),
        (MERGES, "is not valid YAML: it has more than 100,000 values"),
        ("x: &x [*x]", "is not valid YAML: a list or mapping contains itself"),
        ("x: " + "[" * 2000, "is not valid YAML: its lists and objects are nested too deeply"),
        ("seed: " + "9" * 5000, "is not valid YAML: it has a number of thousands of digits"),
        (
            "seed: 0x" + "f" * 5000,
            "'seed': Input should be less than or equal to 1000000000000000000. Got a value of the type int",
        ),
        ("x: 2001-99-99", "is not valid YAML: month must be in 1..12"),
        ("x: !!python/object:os.system", "is not valid YAML: could not determine a constructor"),
        ("x: " + "a" * 250_000, "cannot be read: it is larger than 250,000 bytes"),
        ("x: \xff", "cannot be read: it is not UTF-8 text"),
    ],
    ids=[
        "aliases",
        "merges",
        "circle",
        "nested",
        "digits",
        "hexadecimal",
        "date",
        "code",
        "large",
        "no UTF-8",
    ],
)
def test_texts_that_grow_or_break(text: str, message: str, tmp_path: Path) -> None:
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
        (
            {
                "scaling": {
                    "targets": [n / 101 for n in range(1, 101)],
                    "levels": [n / 101 for n in range(1, 101)],
                }
            }
            | {"strategies": [{"name": f"s{n}", "plugin": "best-of-n"} for n in range(100)]},
            "it asks for up to 2,000,002 cells, and a grid has at most 1,000,000; split it into several grids",
        ),
    ],
)
def test_more_than_a_machine_can_run_is_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text(yaml.safe_dump(GRID | changes))
    with pytest.raises(GridError) as caught:
        read_grid(path)
    assert message in str(caught.value)


def test_more_shards_than_a_run_can_have_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text(yaml.safe_dump(GRID | {"scaling": {"samples": 10**6}, "shards": {"trajectories": 1}}))
    with pytest.raises(
        GridError, match=r"asks for about 2,\d{3},\d{3} shards, and a run has at most 1,000,000"
    ):
        use(path)


def test_an_argument_of_check_that_is_not_yaml() -> None:
    with pytest.raises(InvalidArgumentsError, match="The value of --argument checkpoint is not valid YAML"):
        check_plugins("qwen", "prm", ["checkpoint=["])
