"""Pictures of the terminal after two runs on real solutions whose answers stand in no box.

``python -m tools.terminal_pictures RECORDING OUT`` runs the shipped grid ``recorded`` twice and writes two SVG files to
the folder OUT. RECORDING is the public file that this grid names. In the first run, "The answer is ..." takes the place
of each box. In the second one, nearly no answer can be read.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS = 80
_BOX = re.compile(r"(?:\$|\\\[|\\\()?\s*\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}[.\s]*(?:\$|\\\]|\\\))?")


def _phrase(found: re.Match[str]) -> str:
    return f"\nThe answer is {found[1]}."


def _nothing(_: re.Match[str]) -> str:
    return "yajo"


def main() -> None:
    """Write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recording", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    records = [json.loads(line) for line in given.recording.read_text(encoding="utf-8").splitlines()]
    for name, change in (("read", _phrase), ("unread", _nothing)):
        with tempfile.TemporaryDirectory() as folder:
            lines = (
                json.dumps(each | {"response": [_BOX.sub(change, text) for text in each["response"]]})
                for each in records
            )
            Path(folder, "math_cot_100.jsonl").write_text("\n".join(lines), encoding="utf-8")
            command = ["prmcal", "run", "recorded", "--out", f"runs/{name}"]
            done = subprocess.run(
                [sys.executable, "-m", *command],
                cwd=folder,
                env={**os.environ, "COLUMNS": str(COLUMNS)},
                capture_output=True,
                text=True,
                check=True,
            )
        console = Console(width=COLUMNS, record=True, file=io.StringIO())
        console.print(Text(f"$ {' '.join(command)}\n{done.stderr}{done.stdout}".rstrip()))
        # The picture uses fonts that the reader has, and loads none.
        picture = re.sub(r"@font-face \{[^}]*\}", "", console.export_svg(title="prmcal run"))
        (given.out / f"answers-{name}.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
