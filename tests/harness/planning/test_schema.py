"""The JSON Schema of the grid file, which editors use: it accepts what a run accepts, and marks what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from prmcal.grids import shipped_grids
from tests.conftest import PLUGINS, ROOT, Prmcal

FILE = ROOT / "grids" / "grid.schema.json"
AGAIN = "Run `prmcal list --schema > grids/grid.schema.json`."
SMALL = """
name: small
llms: [{name: weak, plugin: transformers, arguments: {checkpoint: "nano:weak"}}]
prms: [{name: qwen, arguments: {checkpoint: "nano:prm"}}]
calibrators: [isotonic]
calibration: {name: nano-math}
datasets: [nano-math]
"""


@pytest.fixture(scope="module")
def schema() -> jsonschema.Draft7Validator:
    content = json.loads(FILE.read_text(encoding="utf-8"))
    jsonschema.Draft7Validator.check_schema(content)
    return jsonschema.Draft7Validator(content)


def problem(schema: jsonschema.Draft7Validator, grid: Any) -> str:
    """What is wrong with a grid, as an editor shows it: the place and the message. Empty if nothing is."""
    found = jsonschema.exceptions.best_match(schema.iter_errors(grid))
    return f"{found.json_path}: {found.message}" if found else ""


def test_the_shipped_file_is_current(prmcal: Prmcal) -> None:
    assert FILE.read_text(encoding="utf-8") == prmcal("list", "--schema").stdout, f"The file is old. {AGAIN}"


@pytest.mark.parametrize("path", shipped_grids().values(), ids=lambda path: path.stem)
def test_shipped_grids_are_valid_and_name_the_schema(schema: jsonschema.Draft7Validator, path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert problem(schema, yaml.safe_load(text)) == ""
    assert text.startswith(f"# yaml-language-server: $schema={FILE.name}\n")


@pytest.mark.parametrize(
    ("added", "place", "message"),
    [
        ({"calibraters": []}, "$", "'calibraters' was unexpected"),
        ({"seed": -1}, "$.seed", "less than the minimum of 0"),
        ({"scaling": {"targets": [1.5]}}, "$.scaling.targets[0]", "maximum of 1"),
        ({"sampling": {"temprature": 1.0}}, "$.sampling", "'temprature' was unexpected"),
        ({"llms": []}, "$.llms", "should be non-empty"),
        ({"prms": [{"plugin": "qwen"}]}, "$.prms[0]", "'name' is a required property"),
        ({"strategies": ["best-of-n", 3]}, "$.strategies[1]", "is not of type 'string', 'object'"),
    ],
)
def test_bad_grids_are_marked_where_they_are_wrong(
    schema: jsonschema.Draft7Validator, added: dict[str, Any], place: str, message: str
) -> None:
    """A plugin need not be registered."""
    small = yaml.safe_load(SMALL)
    own = {"name": "mine", "plugin": "my-calibrator", "arguments": {"anything": [1, 2]}}
    assert problem(schema, small | {"calibrators": ["my-other", own]}) == ""
    found = problem(schema, small | added)
    assert found.startswith(f"{place}: ")
    assert message in found


def test_the_command_prints_the_schema_with_the_plugins_of_a_file(prmcal: Prmcal) -> None:
    printed = prmcal("list", "--schema", "--plugin", PLUGINS / "synthetic.py")
    assert printed.returncode == 0, printed.stderr
    own = json.loads(printed.stdout)["definitions"]["LLMSpec"]["anyOf"][0]["enum"]
    shipped = json.loads(FILE.read_text(encoding="utf-8"))["definitions"]["LLMSpec"]["anyOf"][0]["enum"]
    assert set(own) > set(shipped)
