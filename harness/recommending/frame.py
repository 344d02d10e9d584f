"""A recommendation as a table, and the command that uses a choice."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prmcal.db.overview.types import UNKNOWN
from prmcal.harness.recommending.types import Choice, Line, Recommendation

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ask_command", "recommendation_frame"]


def recommendation_frame(found: Recommendation, directory: Path) -> pd.DataFrame:
    """Return one row for each choice and data set: the recommended choice first, then the plain one, then the others.

    Columns role ("recommended", "fixed", "other"), llm, prm, calibrator, level, strategy, target, max_samples, cell_id,
    number, command, known_accuracy, known_samples and known_tokens (on the calibration questions), known_questions,
    dataset, questions, accuracy, samples, tokens, to_fixed, to_pass_at_1 and to_recommended (on the test questions).
    Values have their 95% interval in ``<column>_low`` and ``<column>_high``. What is not known is NaN.
    """
    import pandas as pd

    lines = [("recommended", found.recommended), ("fixed", found.fixed)]
    lines += [("other", each) for each in found.others]
    return pd.DataFrame([row for role, line in lines for row in _rows(role, line, found, directory)])


def ask_command(line: Line, directory: Path) -> str:
    """Return the command that answers a question with a choice.

    A choice without a calibrator leaves it to ``prmcal ask`` which one says how sure the answer is.
    """
    choice = line.choice
    parts = ["prmcal", "ask", str(directory), "QUESTION"]
    if line.cell:
        parts += ["--cell", line.cell if line.number is None else str(line.number)]
    else:
        parts += ["--llm", choice.llm, *(["--prm", choice.prm] if choice.prm else [])]
    parts += ["--strategy", choice.strategy]
    if choice.target is not None:
        parts += ["--target", repr(choice.target)]
    if choice.level is not None:
        parts += ["--level", f"{choice.level:g}"]
    return shlex.join([*parts, "--max-samples", str(choice.samples)])


def _rows(role: str, line: Line, found: Recommendation, directory: Path) -> list[dict[str, Any]]:
    known = line.known
    return [
        {
            "role": role,
            **_identity(line.choice),
            "cell_id": line.cell,
            "number": line.number,
            "command": ask_command(line, directory),
            **known.accuracy.columns("known_accuracy"),
            **known.samples.columns("known_samples"),
            **(known.tokens or UNKNOWN).columns("known_tokens"),
            "known_questions": found.questions,
            "dataset": each.dataset,
            "questions": each.questions,
            **each.accuracy.columns("accuracy"),
            **each.samples.columns("samples"),
            **(each.tokens or UNKNOWN).columns("tokens"),
            **(each.to_fixed or UNKNOWN).columns("to_fixed"),
            **each.to_pass_at_1.columns("to_pass_at_1"),
            **(each.to_recommended or UNKNOWN).columns("to_recommended"),
        }
        for each in line.tests
    ]


def _identity(choice: Choice) -> dict[str, Any]:
    return {
        "llm": choice.llm,
        "prm": choice.prm or None,
        "calibrator": choice.calibrator or None,
        "level": choice.level,
        "strategy": choice.strategy,
        "target": choice.target,
        "max_samples": choice.samples,
    }
