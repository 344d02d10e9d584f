"""A results repository: folders for submissions and verifications, and the workflows that verify and publish them."""

from __future__ import annotations

from pathlib import Path

from prmcal import __version__
from prmcal.errors import StorageError
from prmcal.harness.storage.store import storage_errors
from prmcal.harness.storage.written_folder import write_text

__all__ = ["write_recipe"]

_TEMPLATE = Path(__file__).parent / "template"
_FILES = {
    "README.md": "README.md",
    ".github/workflows/verify.yml": "verify.yml",
    ".github/workflows/publish.yml": "publish.yml",
}
_FOLDERS = ("submissions", "verifications")
_IGNORED = ("/candidates/", "/every-eval-ever/", "/leaderboard/", "/records/", "/site/")


def write_recipe(folder: Path) -> list[Path]:
    """Write the files of a results repository into a folder, which may be a repository already.

    Parameters
    ----------
    folder : Path
        Its other files stay as they are.

    Returns
    -------
    list of Path
        The files that were written.

    Raises
    ------
    StorageError
        If one of the files exists with another content. Nothing is written then.
    """
    texts = {
        target: (_TEMPLATE / name).read_text(encoding="utf-8").replace("@VERSION@", __version__)
        for target, name in _FILES.items()
    }
    texts[".gitignore"] = "".join(f"{each}\n" for each in _IGNORED)
    texts |= {f"{each}/.gitkeep": "" for each in _FOLDERS}
    with storage_errors(folder):
        for target, text in texts.items():
            file = folder / target
            if file.exists() and (not file.is_file() or file.read_text(encoding="utf-8") != text):
                raise StorageError(
                    f"{file} exists already with another content. Nothing was changed. Move it away first."
                )
        for target, text in texts.items():
            (folder / target).parent.mkdir(parents=True, exist_ok=True)
            write_text(folder / target, text)
    return [folder / target for target in sorted(texts)]
