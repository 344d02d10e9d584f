"""The finished runs of prmcal as input of an audit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prmcal.db.queries.trajectories import scored_places, scored_prefixes
from prmcal.db.run_folder import RECORD_FILE
from prmcal.errors import DataError
from prmcal.harness.audit.scored import Scored, rows_of
from prmcal.harness.storage.folder import RunFolder
from prmcal.registry.reading.shapes import Solution
from prmcal.registry.reading.solutions import Fields

if TYPE_CHECKING:
    import pandas as pd

_KINDS = ("llm", "prm", "dataset", "split")
_MEASURED = "test"


def is_run(path: Path) -> bool:
    """Return whether a path is the output folder of a run."""
    return (path / RECORD_FILE).is_file()


def scored_run(directory: Path, only: Mapping[str, Sequence[str]]) -> Scored:
    """Return the scored solutions of one LLM, PRM, data set and split of a run.

    Raises a DataError if the run has nothing that is scored and has follow-ups, or if several places are left. The
    message names the choices. Raises a RunError or a DatabaseError if the folder has no readable results.

    `only` has the names that are wanted for ``llm``, ``prm``, ``dataset`` and ``split``. Without a split, it is that of
    the test questions if there is one.
    """
    published = RunFolder(directory).results()
    place = _chosen(scored_places(published), directory, only)
    trajectories, prefixes = scored_prefixes(published, place)
    prefixes["rate"] = prefixes["successes"].astype("Float64") / prefixes["follow_ups"]
    prefixes = prefixes.astype({"logit": "float64", "rate": "float64"})
    by_trajectory = dict(tuple(prefixes.groupby(["question_id", "trajectory"], sort=False)))
    solutions = [
        _solution(row, own)
        for row in trajectories.itertuples()
        if (own := by_trajectory.get((row.question_id, row.trajectory))) is not None
    ]
    words = (
        f"Run {directory}: LLM {place['llm']}, PRM {place['prm']}, data set {place['dataset']}, {place['split']} "
        "questions."
    )
    return rows_of(solutions, str(directory), Fields(scale="logit"), [words])


def _chosen(places: pd.DataFrame, directory: Path, only: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the place that is wanted."""
    if places.empty:
        raise DataError(f"{directory} has no rewards with success counts yet. Finish the run: prmcal run.")
    if unknown := only.keys() - set(_KINDS):
        raise DataError(f"A place of a run is chosen by {', '.join(_KINDS)}. Got '{min(unknown)}'.")
    for kind in _KINDS:
        names = list(dict.fromkeys(places[kind]))
        wanted = only.get(kind, [_MEASURED] if kind == "split" and _MEASURED in names else names)
        places = places[places[kind].isin(wanted)]
        if places.empty:
            raise DataError(
                f"{directory} has no {kind} '{wanted[0]}' with scores and success counts. It has: {', '.join(names)}."
            )
    several = {kind: names for kind in _KINDS if len(names := list(dict.fromkeys(places[kind]))) > 1}
    if several:
        listed = "; ".join(f"{kind} {', '.join(names)}" for kind, names in several.items())
        choice = " ".join(f"--only {kind}={names[0]}" for kind, names in several.items())
        raise DataError(
            f"{directory} has several places, and an audit is about one scorer of one LLM: {listed}. Choose one, such "
            f"as {choice}"
        )
    if len(places) > 1:
        raise DataError(
            f"{directory} was merged from several runs, which have {len(places)} scores of this place. Audit the "
            "folder of one of them."
        )
    return {str(name): value for name, value in places.iloc[0].items()}


def _solution(row: Any, own: pd.DataFrame) -> Solution:
    logits: list[float | None] = [None] * (row.steps + 1)
    rates: list[float | None] = [None] * (row.steps + 1)
    for step, logit, rate in zip(own["step"], own["logit"], own["rate"], strict=True):
        logits[step] = None if math.isnan(logit) else logit
        rates[step] = None if math.isnan(rate) else rate
    return {
        "question": row.question_id,
        "steps": [""] * int(row.steps),
        "score": logits,
        "rates": rates,
        "label": bool(row.correct),
        "answer": row.answer or "",
        "level": row.question_level,
        "cost": int(row.tokens),
    }
