"""Texts of a bundle that are not those of its hashes are found at the first tier."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

from prmcal.harness.share.bundle import SUBMISSION_FILE, BundledFile, read_submission
from prmcal.harness.share.checks import check_unpacked, unpack
from prmcal.harness.share.tables import file_digest
from prmcal.harness.share.writing import write_bundle
from prmcal.harness.storage.store import MANIFEST_FILE, ArtifactRef, Store, file_sha256
from prmcal.harness.verify.subject import opened
from prmcal.harness.verify.texts import check_rows
from tests.harness.share.conftest import ABOUT


def _with_other_text(folder: Path) -> Path:
    """Change one text of an unpacked bundle, and make all its lists fit."""
    table = min(folder.glob("artifacts/rollout/*/trajectories.parquet"))
    rows = parquet.read_table(table)
    texts = ["another solution", *rows["text"].to_pylist()[1:]]
    place = rows.column_names.index("text")
    parquet.write_table(rows.set_column(place, "text", pa.array(texts, rows["text"].type)), table)
    store = Store(folder)
    file = table.parent / MANIFEST_FILE
    content = json.loads(file.read_text())
    content["files"][table.name] = [table.stat().st_size, file_sha256(table)]
    file.write_text(json.dumps(content, sort_keys=True))
    assert store.manifest(ArtifactRef("rollout", table.parent.name)) is not None
    submission = read_submission((folder / SUBMISSION_FILE).read_bytes(), "here")
    files = dict(submission.files)
    for path in (table, file):
        digest = file_digest(path) if path == table else None
        files[path.relative_to(folder).as_posix()] = BundledFile(
            path.stat().st_size, file_sha256(path), digest
        )
    listed = {name: BundledFile(**asdict(each)) for name, each in files.items()}
    (folder / SUBMISSION_FILE).write_bytes(replace(submission, files=listed).to_bytes())
    return folder


def test_a_text_with_another_hash_is_not_consistent(finished: Path, tmp_path: Path) -> None:
    write_bundle(finished, None, tmp_path / "bundle", ABOUT, texts=True)
    folder = tmp_path / "unpacked"
    unpack(tmp_path / "bundle", folder)
    with opened(folder) as subject:
        assert check_rows(subject).passed
    check_unpacked(_with_other_text(folder))  # Nothing else is wrong.
    with opened(folder) as subject:
        check = check_rows(subject)
    assert not check.passed
    assert "it has 1 text with another hash" in check.message
