"""The numbers of an audit as tables, which its diagrams and its report show."""

import math
from typing import Any

import pandas as pd

from prmcal.harness.audit.choices import Choices
from prmcal.harness.audit.detection import CATEGORIES, PRM_SCORES, Detection
from prmcal.harness.audit.estimates import Measured, Number

_CHOSEN = "chosen in the folds"
_PUBLISHED = ("overall", *CATEGORIES.values())


def tables(found: Measured, choices: Choices | None) -> dict[str, pd.DataFrame]:
    """Return the tables reliability, steps, difficulty, calibrators, learning, choices, detection and prmscore.

    The 95% interval of a value NAME is in NAME_low and NAME_high. A table without values has no rows.
    """
    others, levels = "the share of the other solutions that are right", found.by_level
    ways = choices.rows if choices else ()
    rows = {
        "reliability": [
            {"series": name, "score": each.score, **_row("right", each.right), "prefixes": each.prefixes}
            for name, bins in found.reliability.items()
            for each in bins
        ],
        "steps": [{"part": name, **_row("error", each)} for name, each in found.by_step.items()],
        "difficulty": [
            {"part": name, **_row("error", each), "kind": "level" if levels else others}
            for name, each in (levels or found.by_others).items()
        ],
        "calibrators": [
            {"calibrator": name, **_row("cut", each)}
            for name, each in {**found.gains, _CHOSEN: found.gain}.items()
        ],
        "learning": [{"labelled": count, **_row("cut", each)} for count, each in found.curve.items()],
        "choices": [
            {
                "choice": each.name,
                **_row("accuracy", each.accuracy),
                "samples": each.samples,
                **_row("against", each.against),
            }
            for each in ways
        ],
        "detection": [
            {"way": each.way, **_row("f1", each), "solutions": each.solutions} for each in found.detection
        ],
        "prmscore": [
            {
                "category": each.category,
                **_row("score", each.score),
                **_row("calibrated", each.calibrated),
                "steps": each.score.solutions,
                **{name: own[_PUBLISHED.index(each.category)] for name, own in PRM_SCORES.items()},
            }
            for each in found.prm_scores
        ],
    }
    return {name: pd.DataFrame(own) for name, own in rows.items()}


def _row(name: str, found: Number | Detection | None) -> dict[str, Any]:
    value, low, high = (math.nan,) * 3 if found is None else (found.value, found.low, found.high)
    return {name: value, f"{name}_low": low, f"{name}_high": high}
