"""Write the figures of the finished nano grid into the README, the documentation and the model card.

    python -m benchmarks.documents [runs/nano runs/demo]

With the folders of finished runs of the grids `nano` and `demo`, it first keeps their figures in ``docs/nano``.
Without, it uses those kept.
In a document, the text between ``<!-- figures: NAME -->`` and ``<!-- end -->`` is written from the figures. A sentence
that is no longer true of the figures stops the script: write the sentence anew in `sentences`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from benchmarks.documents.figures import Figures, load, record
from benchmarks.documents.sentences import PLACES

_ROOT = Path(__file__).parents[2]
_PAGES = (_ROOT / "README.md", *sorted((_ROOT / "docs").rglob("*.md")), _ROOT / "registry" / "nano" / "MODEL_CARD.md")
DOCUMENTS = [page for page in _PAGES if "<!-- figures: " in page.read_text(encoding="utf-8")]

_PLACE = re.compile(r"(<!-- figures: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def written(text: str, figures: Figures) -> str:
    """Return a document with its marked places written from the figures.

    Raises
    ------
    KeyError
        If a mark has a name that `sentences.PLACES` does not have.
    AssertionError
        If a sentence is not true of the figures.
    """
    return _PLACE.sub(lambda mark: f"{mark[1]}{PLACES[mark['name']](figures)}\n{mark[3]}", text)


def main() -> None:
    if len(sys.argv) > 1:
        nano, demo = map(Path, sys.argv[1:])
        record(nano, demo)
    figures = load()
    for document in DOCUMENTS:
        document.write_text(written(document.read_text(encoding="utf-8"), figures), encoding="utf-8")
        print(f"Wrote {document.relative_to(_ROOT)}")


if __name__ == "__main__":
    main()
