"""A damaged record, or damaged failures, in the folder of a run: refused, and the folder can be used again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from prmcal.db.run_folder import RECORD_FILE, artifacts_root
from prmcal.errors import RunError
from prmcal.harness.storage.folder import RunFolder
from tests.mutations import FEW, TEXTS, changed, damaged, reads_or_refuses

RECORD: dict[str, Any] = {
    "grid": {"name": "small", "llms": ["a"]},
    "plugin_files": ["/a.py"],
    "run_id": "0123456789ab",
    "started_at": "2026-11-22T00:00:00+00:00",
    "workers": 2,
    "log": "run.log",
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


def use(directory: Path) -> None:
    folder = RunFolder(directory)
    folder.claim("small")
    record = folder.record()
    assert isinstance(record.workers, int)
    assert all(isinstance(each, str) for each in (record.run_id, record.started_at, *record.plugin_files))


@given(
    content=changed(RECORD).map(json.dumps).map(str.encode)
    | damaged(json.dumps(RECORD).encode())
    | TEXTS.map(str.encode)
)
@FEW
def test_changed_and_damaged_records(content: bytes, directory: Path) -> None:
    (directory / RECORD_FILE).write_bytes(content)
    reads_or_refuses(lambda: use(directory))


def test_a_folder_without_its_record_can_be_used_again(tmp_path: Path) -> None:
    artifacts_root(tmp_path).mkdir()
    (tmp_path / RECORD_FILE).write_text("{")
    with pytest.raises(RunError, match=r"run\.json is damaged .*Remove it, and run the grid again"):
        RunFolder(tmp_path).claim("small")
    (tmp_path / RECORD_FILE).unlink()
    RunFolder(tmp_path).claim("small")


def test_a_file_in_the_place_of_a_folder_is_told_and_not_called_damaged(tmp_path: Path) -> None:
    archive = tmp_path / "ada.zip"
    archive.touch()
    told = r"ada\.zip is a file, but the folder of a run is needed\. If it is an archive, unpack it first\."
    for ask in (RunFolder(archive).record, RunFolder(archive).results):
        with pytest.raises(RunError, match=told):
            ask()
    with pytest.raises(RunError, match=r"No grid was run in .*ada\.zip/inside\. Start one"):
        RunFolder(archive / "inside").record()
    with (
        pytest.raises(RunError, match=r"ada\.zip is a file\. Choose a new folder"),
        RunFolder(archive).lock(),
    ):
        pass
