"""``prmcal docs``: the documentation, built from the pages of the package."""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
import webbrowser
from pathlib import Path

import prmcal
from prmcal.errors import PrmcalError, StorageError

__all__ = ["build_documentation", "open_page"]

_PAGES = Path(prmcal.__file__).with_name("docs")


def build_documentation() -> Path:
    """Build the documentation in the user's cache, unless it is there, and return its first page.

    Every version has a folder of its own, and so has every change of the pages.

    Raises
    ------
    PrmcalError
        If Sphinx or its theme is not installed, or the pages cannot be built.
    StorageError
        If the cache cannot be written.
    """
    try:
        import furo  # noqa: F401
        import myst_parser  # noqa: F401
        import sphinx_copybutton  # noqa: F401
        from platformdirs import user_cache_path
        from sphinx.application import Sphinx
        from sphinx.errors import SphinxError
    except ImportError as error:
        raise PrmcalError(
            "The documentation is built by Sphinx, which is not installed. Install it: pip install 'prmcal[docs]'"
        ) from error

    folder = user_cache_path("prmcal") / "docs" / f"{prmcal.__version__}-{_pages_hash()}"
    page = folder / "index.html"
    if page.is_file():
        return page
    print("Building the documentation, once for this version.", file=sys.stderr)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Another process finds the whole documentation or none.
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            built = Path(temporary) / "html"
            app = Sphinx(_PAGES, _PAGES, built, Path(temporary) / "doctrees", "html", status=None)
            app.build()
            if app.statuscode:
                raise PrmcalError("The documentation could not be built. The messages above say why.")
            shutil.rmtree(folder, ignore_errors=True)
            built.rename(folder)
    except SphinxError as error:
        raise PrmcalError(f"The documentation cannot be built: {error}") from error
    except OSError as error:
        raise StorageError(f"The documentation cannot be written to {folder}: {error}.") from error
    return page


def open_page(page: Path) -> None:
    """Open a page in the user's browser. Without a browser, nothing happens."""
    webbrowser.open(page.as_uri())


def _pages_hash() -> str:
    """Return the hash of everything that is on the pages, except what they take from the code."""
    found = hashlib.sha256()
    for path in sorted(_PAGES.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            found.update(str(path.relative_to(_PAGES)).encode() + path.read_bytes())
    return found.hexdigest()[:8]
