"""Signatures by real keys, as OpenSSH makes and checks them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from prmcal.errors import BundleError, PrmcalError
from prmcal.harness.share.bundle import extract, sign, signer_of, write_archive
from prmcal.harness.share.checks import submission_of, unpack
from prmcal.harness.share.writing import write_bundle
from tests.harness.share.conftest import ABOUT

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="OpenSSH is not installed")


def new_key(folder: Path, name: str) -> Path:
    key = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key], check=True)
    return key


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_key(tmp_path_factory.mktemp("keys"), "lab-a")


def test_openssh_accepts_the_signature_of_a_bundle(finished: Path, tmp_path: Path, key: Path) -> None:
    written = write_bundle(finished, None, tmp_path / "signed", ABOUT, key=key)
    write_bundle(finished, None, tmp_path / "again", ABOUT, key=key)
    assert (tmp_path / "signed").read_bytes() == (tmp_path / "again").read_bytes()
    signers, folder = tmp_path / "allowed_signers", tmp_path / "unpacked"
    signers.write_text(f"lab-a@example.org {key.with_suffix('.pub').read_text()}")
    submission = unpack(tmp_path / "signed", folder)
    assert submission.signed_by == written.submission.signed_by
    assert submission_of(folder, "the bundle") == submission
    verify = (
        f"ssh-keygen -Y verify -n prmcal -I lab-a@example.org -f {signers} -s {folder}/submission.json.sig"
    )
    checked = subprocess.run(
        verify.split(),
        input=(folder / "submission.json").read_bytes(),
        capture_output=True,
        check=True,
    )
    assert submission.signed_by is not None and submission.signed_by.encode() in checked.stdout


def test_a_bundle_without_a_signature_has_no_signer(bundle: Path, tmp_path: Path) -> None:
    assert unpack(bundle, tmp_path / "bare").signed_by is None


def test_a_signature_of_other_bytes_or_for_another_purpose_is_refused(
    bundle: Path, tmp_path: Path, key: Path
) -> None:
    extract(bundle, tmp_path)
    message = (tmp_path / "submission.json").read_bytes()
    foreign = sign(message + b" ", key)
    for_git = subprocess.run(
        ["ssh-keygen", "-Y", "sign", "-q", "-n", "git", "-f", key],
        input=message,
        capture_output=True,
        check=True,
    ).stdout
    for number, signature in enumerate((foreign, for_git, b"", b"-----BEGIN SSH SIGNATURE-----\nAAAA")):
        entries = {
            each.relative_to(tmp_path).as_posix(): each for each in tmp_path.rglob("*") if each.is_file()
        }
        forged = tmp_path.with_name(f"{tmp_path.name}-{number}")
        with forged.open("wb") as file:
            write_archive({**entries, "submission.json.sig": signature}, file)
        with pytest.raises(BundleError, match=r"signature of .* is not valid"):
            unpack(forged, tmp_path.with_name("unpacked"))
        assert not tmp_path.with_name("unpacked").exists()


def test_a_record_of_any_kind_can_be_signed(tmp_path: Path, key: Path) -> None:
    assert signer_of(b"record", sign(b"record", key), "the record").startswith("SHA256:")
    with pytest.raises(PrmcalError, match=r"cannot sign with the key .*\."):
        (tmp_path / "no-key").write_text("x")
        sign(b"record", tmp_path / "no-key")
