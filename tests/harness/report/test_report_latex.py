"""The report's tables fit the pages of a document."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from prmcal.db.run_folder import published_path
from prmcal.harness.report.evidence import read_evidence
from prmcal.harness.report.exhibits import latex
from prmcal.harness.report.tables import other_metrics, ranking, table_1, table_5
from tests.harness.report.report_database import build

SHAPES: list[dict[str, Any]] = [
    {},
    {
        "llms": ["an-uncommonly-long-name-of-a-model", "averylongnamewithoutanyplaceforabreak"],
        "prms": ["prm-of-seven-billion-weights", "prm" * 10],
        "calibrators": ["uncalibrated", *(f"calibrator-number-{place}" for place in range(5))],
        "datasets": [f"data-set-of-the-year-{year}" for year in (2024, 2025)],
    },
]
CLASSES = {
    "two columns": r"\documentclass[10pt,twocolumn]{article}\usepackage[textwidth=6.75in,columnsep=.25in]{geometry}",
    "one column": r"\documentclass[12pt]{article}\usepackage[textwidth=5.5in]{geometry}",
}


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
@pytest.mark.parametrize("shape", SHAPES, ids=["small", "long names"])
def test_no_table_is_wider_or_taller_than_the_page(tmp_path: Path, shape: dict[str, Any]) -> None:
    evidence = read_evidence(published_path(build(tmp_path / "run", **shape)))
    tables = [make(evidence) for make in (ranking, table_1, table_5, other_metrics)]
    body = "\\clearpage\n".join(latex(table) for table in tables if table is not None)
    for place, preamble in enumerate(CLASSES.values()):
        document = tmp_path / f"document-{place}.tex"
        document.write_text(
            rf"{preamble}\usepackage[T1]{{fontenc}}\usepackage{{array,booktabs,longtable}}\begin{{document}}\onecolumn"
            f"\n{body}\n\\end{{document}}"
        )
        # A draft needs no fonts, only their widths.
        command = ["pdflatex", "-interaction=batchmode", "-halt-on-error", "-draftmode", document.name]
        done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, timeout=300)
        log = document.with_suffix(".log").read_text(errors="replace")
        assert done.returncode == 0, log[-2000:]
        wide = re.findall(r"Overfull \\[hv]box \(([\d.]+)pt", log)
        assert not wide, (sorted(wide), preamble)
