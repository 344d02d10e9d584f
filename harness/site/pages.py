"""Pages in one file, which work without a server and without a network."""

import base64
import hashlib
from pathlib import Path
from typing import Any

from prmcal.db.html.boards import template

_HERE = Path(__file__).parent


def page(name: str, *styles: str, script: str = "", folder: Path = _HERE, **contents: Any) -> str:
    """Return a page from a template in a folder, which extends ``page.html`` and shows the contents.

    `styles` are CSS besides that of all pages, and `script` is the only JavaScript that the page can run.
    """
    from markupsafe import Markup

    style = "\n".join([(_HERE / "style.css").read_text(encoding="utf-8").rstrip(), *styles])
    # The hashes let a browser run only the script of the page, even if a name or a reason contains another one.
    return template(name, folder, _HERE).render(
        **contents,
        style=Markup(style),
        script=Markup(script),
        style_hash=_digest(style),
        script_hash=_digest(script),
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
