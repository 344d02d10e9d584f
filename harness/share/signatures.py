"""SSH signatures, as ``ssh-keygen -Y`` makes and checks them.

The program `ssh-keygen` itself does both. It defines the format, every machine with git or ssh has it, and it signs
with keys that have a passphrase, are in an agent or on a token. A library would see the private key, and would be one
more package to trust. Keys of the type ed25519 give the same signature each time.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from prmcal.errors import BundleError, PrmcalError
from prmcal.registry.messages import excerpt

__all__ = ["NAMESPACE", "Signer", "sign", "signer_of"]

NAMESPACE = "prmcal"
"""What the signatures are for. A signature for another purpose, such as that of a git commit, is not accepted."""

_PROGRAM = "ssh-keygen"
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
_SECONDS = 60
"""A check waits for nobody. Signing may wait for a passphrase or a touch."""


@dataclass(frozen=True)
class Signer:
    """Who made a valid signature.

    Attributes
    ----------
    fingerprint : str
        The key, such as ``SHA256:...``.
    name : str or None
        The name of the key in the file of allowed signers; None without such a file, or if the key is not in it.
    """

    fingerprint: str
    name: str | None = None


def sign(content: bytes, key: Path) -> tuple[bytes, Signer]:
    """Return the signature of some bytes, and who signed them.

    Parameters
    ----------
    content : bytes
    key : Path
        A private key, or a public key whose private key is in the agent.

    Raises
    ------
    PrmcalError
        If the key cannot be used, or OpenSSH is not installed.
    """
    path = key.expanduser()
    if not path.is_file():
        raise PrmcalError(f"There is no key {key}. Make one: ssh-keygen -t ed25519 -f {key}")
    done = _run(["sign", "-q", "-f", str(path)], content, None)
    if done.returncode or not done.stdout:
        raise PrmcalError(f"{_PROGRAM} cannot sign with the key {key}: {_said(done)}")
    with tempfile.NamedTemporaryFile() as file:
        file.write(done.stdout)
        file.flush()
        return done.stdout, signer_of(content, Path(file.name), "the new bundle")


def signer_of(content: bytes, signature: Path, where: str, allowed: Path | None = None) -> Signer:
    """Return who signed some bytes.

    Parameters
    ----------
    content : bytes
    signature : Path
        The file with the signature.
    where : str
        What is signed, for the messages.
    allowed : Path, optional
        A file of allowed signers in the format of OpenSSH: lines with a name and a public key.

    Raises
    ------
    BundleError
        If the signature is not valid for these bytes, or OpenSSH is not installed.
    """
    done = _run(["check-novalidate", "-s", str(signature)], content, _SECONDS)
    found = _FINGERPRINT.search(done.stdout.decode(errors="replace"))
    if done.returncode or not found:
        raise BundleError(
            f"The signature of {where} is not valid: {_said(done)} Ask the submitter for the bundle again."
        )
    return Signer(found[0], _name(content, signature, allowed) if allowed else None)


def _name(content: bytes, signature: Path, allowed: Path) -> str | None:
    """Return the first name that the file of allowed signers has for the key and that is valid now."""
    given = ["-s", str(signature), "-f", str(allowed)]
    names = _run(["find-principals", *given], b"", _SECONDS).stdout.decode(errors="replace").splitlines()
    valid = (name for name in names if not _run(["verify", "-I", name, *given], content, _SECONDS).returncode)
    return next(valid, None)


def _run(arguments: list[str], content: bytes, seconds: float | None) -> subprocess.CompletedProcess[bytes]:
    program = shutil.which(_PROGRAM)
    if program is None:
        raise BundleError(f"Signatures need the program {_PROGRAM}. Install OpenSSH, such as openssh-client.")
    action, *others = arguments
    command = [program, "-Y", action, "-n", NAMESPACE, *others]
    try:
        return subprocess.run(command, input=content, capture_output=True, timeout=seconds, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise BundleError(f"{_PROGRAM} failed: {excerpt(str(error))}") from error


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    text = excerpt((done.stderr or done.stdout).decode(errors="replace")) or "it gave no reason"
    return text if text.endswith(".") else f"{text}."
