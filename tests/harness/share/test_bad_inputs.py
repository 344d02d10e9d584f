"""Bad input is one clear error, and nothing of it is merged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from prmcal.errors import PrmcalError
from prmcal.harness.share.bundle import About
from prmcal.harness.share.checks import unpack
from prmcal.harness.share.merge import merge
from prmcal.harness.share.writing import write_bundle
from prmcal.harness.storage.store import MANIFEST_FILE
from tests.conftest import Prmcal
from tests.harness.share.small_runs import leaderboards


@pytest.fixture(scope="module")
def bundle(parts: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bundle") / "ada.bundle"
    write_bundle(parts["dataset"], None, out, About("Ada", "CC-BY-4.0"))
    return out


def test_nothing_is_merged_with_a_bundle_that_was_cut_off(
    prmcal: Prmcal, parts: Mapping[str, Path], bundle: Path, tmp_path: Path
) -> None:
    cut = tmp_path / "cut.bundle"
    cut.write_bytes(bundle.read_bytes()[:-5000])
    told = prmcal("merge", tmp_path / "out", parts["llm"], cut)
    assert told.returncode == 2 and "Traceback" not in told.stderr and str(cut) in told.stderr
    assert not (tmp_path / "out").exists()


def test_an_altered_bundle_leaves_the_leaderboard_as_it_was(bundle: Path, tmp_path: Path) -> None:
    merge(tmp_path / "out", [bundle])
    before = leaderboards(tmp_path / "out"), sorted(map(str, (tmp_path / "out").rglob("*")))
    content = bytearray(bundle.read_bytes())
    content[len(content) // 2] ^= 1
    altered = tmp_path / "altered.bundle"
    altered.write_bytes(content)
    with pytest.raises(PrmcalError):
        merge(tmp_path / "out", [altered])
    assert (leaderboards(tmp_path / "out"), sorted(map(str, (tmp_path / "out").rglob("*")))) == before


def test_an_altered_merged_leaderboard_is_refused(bundle: Path, tmp_path: Path) -> None:
    merge(tmp_path / "merged", [bundle])
    table = min((tmp_path / "merged").glob("submissions/*/artifacts/score/*/rewards.parquet"))
    content = table.read_bytes()
    table.unlink()
    table.write_bytes(content + b" ")
    with pytest.raises(PrmcalError, match="has other bytes than its list says"):
        merge(tmp_path / "out", [tmp_path / "merged"])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes() + b" "), "has other bytes than its list says"),
        (lambda path: path.unlink(), "lacks a file that its list has"),
        (lambda path: path.with_name("more.json").write_text("{}"), "has a file that its list lacks"),
    ],
    ids=["altered", "deleted", "added"],
)
def test_an_altered_unpacked_bundle_is_refused(
    bundle: Path, tmp_path: Path, change: Callable[[Path], object], message: str
) -> None:
    unpack(bundle, tmp_path / "ada")
    change(min((tmp_path / "ada").rglob(MANIFEST_FILE)))
    with pytest.raises(PrmcalError, match=message):
        merge(tmp_path / "out", [tmp_path / "ada"])
    assert not (tmp_path / "out").exists()


def test_a_file_is_no_place_for_a_leaderboard(prmcal: Prmcal, bundle: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for out in (file, file / "below"):
        told = prmcal("merge", out, bundle)
        message = " ".join(told.stderr.split())
        assert (told.returncode, told.stdout) == (2, "")
        assert f"{file} is a file. Give a new folder or a merged leaderboard as OUT." in message
    assert file.read_text() == "mine"


def test_what_is_no_submission_is_refused(prmcal: Prmcal, bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for wrong in (tmp_path / "empty", tmp_path / "absent"):
        told = prmcal("merge", tmp_path / "out", bundle, wrong)
        assert told.returncode == 2 and f"{wrong} is not the folder of a run" in " ".join(told.stderr.split())
        assert not (tmp_path / "out").exists()
