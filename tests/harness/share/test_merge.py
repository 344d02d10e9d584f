"""Merging is a union of sets: parts of a grid give the leaderboards of the whole grid, in any order and grouping."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pytest

from prmcal.db.catalog import runs, submissions
from prmcal.db.overview.query import overview, ranking_frame
from prmcal.db.run_folder import published_path
from prmcal.errors import RunError
from prmcal.harness.planning.saved import write_plan
from prmcal.harness.share.bundle import About
from prmcal.harness.share.merge import merge, rebuild_merged
from prmcal.harness.share.submissions import merged_submissions
from prmcal.harness.share.union import union_of
from prmcal.harness.share.writing import write_bundle
from prmcal.harness.storage.store import Store
from tests.conftest import Prmcal
from tests.harness.share.small_runs import MERGED_ONLY, leaderboards
from tests.harness.share.test_signatures import new_key


@pytest.fixture(scope="module")
def merged(parts: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The parts, merged in several ways: one after the other, and as merged leaderboards."""
    root = tmp_path_factory.mktemp("merged")
    found = [root / name for name in ("at once", "one after the other", "of merged")]
    merge(found[0], [parts[name] for name in ("llm", "reversed", "dataset", "only")])
    merge(found[1], [parts[name] for name in ("dataset", "llm", "only")])
    merge(root / "right", [parts["reversed"], parts["dataset"]])
    merge(found[2], [found[1], root / "right"])
    merge(found[1], [parts["reversed"]])
    return found


def test_parts_give_the_leaderboards_of_the_whole(whole: Path, merged: list[Path], tmp_path: Path) -> None:
    merge(tmp_path / "alone", [whole])
    expected = leaderboards(whole)
    for out in (tmp_path / "alone", *merged):
        assert leaderboards(out) == expected
    rankings = [ranking_frame(overview(published_path(each))) for each in (whole, merged[0])]
    own, other = (each.drop(columns=list(MERGED_ONLY), errors="ignore") for each in rankings)
    pd.testing.assert_frame_equal(own, other)


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="OpenSSH is not installed")
def test_a_signature_stays_whatever_copy_comes_last(parts: Mapping[str, Path], tmp_path: Path) -> None:
    keys = [new_key(tmp_path, name) for name in ("a", "b")]
    about = About("Ada", "CC-BY-4.0")
    signed = [
        write_bundle(parts["llm"], None, tmp_path / f"signed-{key.name}", about, key=key).submission
        for key in keys
    ]
    write_bundle(parts["llm"], None, tmp_path / "bare", about)
    assert signed[0].submission_id == signed[1].submission_id
    kept = min(str(each.signed_by) for each in signed)
    copies = [tmp_path / name for name in ("signed-a", "bare", "signed-b")]
    merge(tmp_path / "at once", copies)
    assert submissions(published_path(tmp_path / "at once"))["signed_by"].tolist() == [kept]
    for copy in copies[::-1]:
        summary = merge(tmp_path / "one by one", [copy])
        assert len(summary.union.submissions) == 1
    rebuild_merged(tmp_path / "one by one")
    assert submissions(published_path(tmp_path / "one by one"))["signed_by"].tolist() == [kept]


def test_merging_again_changes_nothing(parts: Mapping[str, Path], merged: list[Path]) -> None:
    before = leaderboards(merged[0]), sorted(merged[0].rglob("*"))
    summary = merge(merged[0], [merged[1], *parts.values()])
    assert not summary.added and len(summary.known) == 2 * len(parts)
    assert (leaderboards(merged[0]), sorted(merged[0].rglob("*"))) == before


def test_the_plan_does_not_depend_on_the_order(merged: list[Path], tmp_path: Path) -> None:
    submitted = merged_submissions(merged[0])
    texts = set()
    for number, order in enumerate((submitted, submitted[::-1], [*submitted[2:], *submitted[:3]])):
        folder = tmp_path / str(number)
        folder.mkdir()
        union = union_of(order)
        write_plan(folder, {}, union.plan)
        texts.add((folder / "plan.json").read_text())
    assert len(texts) == 1


def test_a_rebuilt_database_has_the_same_leaderboards(merged: list[Path]) -> None:
    before = leaderboards(merged[2]), list(submissions(published_path(merged[2]))["submission_id"])
    for file in merged[2].glob("*.duckdb"):
        file.unlink()
    rebuild_merged(merged[2])
    assert (leaderboards(merged[2]), list(submissions(published_path(merged[2]))["submission_id"])) == before


def test_each_submission_keeps_its_run(parts: Mapping[str, Path], merged: list[Path]) -> None:
    assert len(runs(published_path(merged[0]))) == len(parts)
    found = submissions(published_path(merged[0]))
    assert (found["cells"] > 0).all() and found["grid_name"].eq("synthetic").all()


def test_runs_with_one_id_and_other_grids_have_rows_of_their_own(
    parts: Mapping[str, Path], tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(parts["dataset"], tmp_path / "copy"))
    record, other = json.loads((copy / "run.json").read_text()), parts["llm"] / "run.json"
    record["run_id"] = json.loads(other.read_text())["run_id"]
    (copy / "run.json").write_text(json.dumps(record))
    merge(tmp_path / "out", [copy, parts["llm"]])
    found = submissions(published_path(tmp_path / "out"))
    assert found["run_id"].nunique() == 2 and found["grid"].nunique() == 2


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_texts_stay_if_any_submission_has_them(
    parts: Mapping[str, Path], tmp_path: Path, order: tuple[int, int]
) -> None:
    bundle = tmp_path / "cells.bundle"
    write_bundle(parts["llm"], None, bundle, About("Ada", "CC-BY-4.0"))
    inputs = [bundle, parts["llm"]]
    merge(tmp_path / "out", [inputs[order[0]]])
    summary = merge(tmp_path / "out", [inputs[order[1]]])
    assert not summary.union.conflicts
    found = submissions(published_path(tmp_path / "out"))
    assert sorted(found["submitter"]) == ["", "Ada"] and sorted(found["texts"]) == [False, True]
    refs = [job.refs[0] for job in summary.union.plan.jobs if job.kind == "rollout"]
    store = Store(tmp_path / "out")
    assert all("text" in store.read(ref, "trajectories").column_names for ref in refs)
    assert len(store.manifests(refs)) == len(refs)  # The manifests belong to the files.
    assert leaderboards(tmp_path / "out") == leaderboards(parts["llm"])


def test_a_bundle_without_texts_is_enough(parts: Mapping[str, Path], tmp_path: Path) -> None:
    bundle = tmp_path / "cells.bundle"
    write_bundle(parts["llm"], None, bundle, About("Ada", "CC-BY-4.0"))
    merge(tmp_path / "out", [bundle])
    assert leaderboards(tmp_path / "out") == leaderboards(parts["llm"])


def test_an_unpacked_bundle_is_the_submission_of_the_bundle(
    prmcal: Prmcal, parts: Mapping[str, Path], tmp_path: Path
) -> None:
    write_bundle(parts["llm"], None, tmp_path / "ada.bundle", About("Ada", "CC-BY-4.0"))
    with zipfile.ZipFile(tmp_path / "ada.bundle") as archive:
        archive.extractall(tmp_path / "ada")
    prmcal("rebuild", tmp_path / "ada")  # A database in the folder is no part of the bundle.
    merge(tmp_path / "out", [tmp_path / "ada"])
    again = merge(tmp_path / "out", [tmp_path / "ada.bundle"])
    assert not again.added and [each.submission.submitter for each in again.known] == ["Ada"]
    assert leaderboards(tmp_path / "out") == leaderboards(parts["llm"])


def test_the_database_is_on_the_disk_once(parts: Mapping[str, Path], tmp_path: Path) -> None:
    merge(tmp_path / "out", [parts["llm"]])
    assert [path.name for path in tmp_path.rglob("*.duckdb*")] == [published_path(tmp_path / "out").name]


def test_commands_read_a_merged_leaderboard(
    prmcal: Prmcal, merged: list[Path], parts: Mapping[str, Path]
) -> None:
    told = prmcal("merge", merged[0], parts["llm"])
    assert told.returncode == 0 and "1 submission had been merged before" in " ".join(told.stdout.split())
    for command in (["show", "1", "--dir"], ["leaderboard"], ["status"], ["compare", "1", "2", "--dir"]):
        found = prmcal(*command, merged[0])
        assert found.returncode == 0 and not found.stderr, found.stderr
    refused = prmcal("run", "hello", "--out", merged[0])
    assert refused.returncode == 2 and "belongs to the grid 'merged leaderboard'" in refused.stderr


def test_out_must_be_a_merged_leaderboard(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="not from a merged leaderboard"):
        merge(whole, [whole])
