"""Theorem 1 of the paper: the success probability that it promises, beside the one that was measured."""

from __future__ import annotations

import pandas as pd

from prmcal.db.queries.trajectories import MEDIAN
from prmcal.harness.report.evidence import PLACE, Evidence, values, wanted, with_none
from prmcal.harness.report.exhibits import VERDICTS, Panel, Table

_PASS = "pass_at_n"
_CAPTION = (
    "Theorem 1 of the paper is about best-of-N_IAS with the reward at the level beta, if samples are not limited and "
    "the PRM finds a right answer whenever there is one. 'Promised' is C (1 - beta): its lower bound of the success "
    "probability for a quantile that has its level on the test questions. pass@N_IAS is measured for '{}'. Kept: its "
    "whole interval is at or above the promise. Not kept: it is below. Open: the promise lies within it. Below each "
    "value is its 95% interval over questions; n is the number of trajectories (for the coverage: of prefixes) / "
    "questions. Calibrators with a point estimate predict no quantile and are left out."
)
_REASONS = (
    "The promise can fail for three reasons. The quantile was fitted to other questions, such as another data set. A "
    "plain quantile need not have its level even on questions of the same distribution; only a conformal bound is "
    "corrected for that. In both cases the coverage is below 1 - beta. Third, the theorem does not limit the samples: "
    "where pass@N of the full budget is below the promise, no reward can keep it. The promise can also be kept with a "
    "coverage below 1 - beta, because C (1 - beta) counts every question with too high a reward as lost."
)


def theorem_1(evidence: Evidence) -> Table | None:
    """Make the table of Theorem 1: C (1 - beta) and pass@N_IAS for every setting of best-of-n + IAS.

    A calibrator with a point estimate predicts no quantile, so that the theorem promises nothing for it. None if the
    grid has no best-of-n + IAS with quantiles.

    Notes
    -----
    Theorem 1 states that without a limit on the samples, best-of-N_IAS(r^(beta), C) succeeds with probability at least
    C (1 - beta~), where beta~ >= beta depends on the calibration data. Its proof counts a success if at least one
    sample is right, which is pass@N_IAS and not the accuracy.
    """
    _, adaptive = evidence.strategies_of_paper("bon_qwen")
    if not adaptive:
        return None
    strategy = adaptive[0]  # it has no arguments, so that all of its names have the same results
    scaling = evidence.scaling[evidence.scaling["strategy"] == strategy]
    settings = scaling[["target", "level"]].dropna().drop_duplicates().sort_values(["target", "level"])
    # A calibrator without a level besides the median has only a point estimate.
    quantiles = {
        calibrator
        for known in (evidence.scaling, evidence.points)
        for calibrator in known.loc[known["level"].notna() & (known["level"] != MEDIAN), "calibrator"]
    }
    calibrators = [each for each in evidence.calibrators if each in quantiles]
    names = wanted({**evidence.places, "calibrator": calibrators}).merge(settings, how="cross")
    measured = values(scaling, names.assign(strategy=strategy, metric=_PASS))
    there = measured["status"] != "missing"
    measured, names = measured[there].reset_index(drop=True), names[there].reset_index(drop=True)
    if measured.empty:
        return None
    promised = names["target"] * (1 - names["level"])
    standings = [
        None if low is None else "kept" if low >= least else "not kept" if high < least else "open"
        for low, high, least in zip(measured["low"], measured["high"], promised, strict=True)
    ]
    measured = with_none(measured.assign(standing=standings))
    panel = Panel(
        "promise",
        "Promised and measured",
        evidence.described.description(_PASS),
        _beside(
            _certain(measured, "promised", promised).assign(column="Promised"),
            measured.assign(column="pass@N_IAS"),
        ),
        (*PLACE, "calibrator", "target", "level"),
    )
    return Table(
        "theorem-1",
        "Theorem 1: what it promises, and what was measured",
        _CAPTION.format(strategy),
        (panel, *_coverage(evidence, names)),
        remarks=(_summary(measured), _REASONS),
    )


def _certain(like: pd.DataFrame, metric: str, numbers: pd.Series) -> pd.DataFrame:
    """Return values that were not measured, in rows like others."""
    nothing = dict.fromkeys(("low", "high", "prefixes", "questions", "standing", "reason"))
    return like.assign(metric=metric, value=numbers, status="done", **nothing)


def _beside(*columns: pd.DataFrame) -> pd.DataFrame:
    """Return the values of a panel row by row, from its columns."""
    return pd.concat(columns).sort_index(kind="stable")


def _coverage(evidence: Evidence, names: pd.DataFrame) -> list[Panel]:
    """Return a panel with the coverage of each quantile, or an empty list if the run measures none of the levels."""
    asked = names.drop(columns="target").drop_duplicates()
    asked = asked.assign(metric=[f"coverage_{level:g}" for level in asked["level"]])
    asked = asked[asked["metric"].isin(evidence.metrics)].reset_index(drop=True)
    if asked.empty:
        return []
    # Cells of calibration have no level: the metric names it.
    found = values(evidence.calibration, asked.drop(columns="level")).assign(level=asked["level"])
    ideal = _certain(found, "ideal_coverage", 1 - asked["level"]).assign(column="1 - beta")
    panel = Panel(
        "coverage",
        "Coverage of the quantiles",
        "How often the success probability is at least the reward at the level beta, over the prefixes of "
        "the test questions. It is 1 - beta if the quantile has its level there. Theorem 1 is about the bare "
        "questions, which are some of the prefixes.",
        _beside(ideal, found.assign(column="Coverage")),
        (*PLACE, "calibrator", "level"),
    )
    return [panel]


def _summary(measured: pd.DataFrame) -> str:
    """Say in how many rows the promise is kept."""
    standings = list(measured["standing"].dropna())
    kept, broken, unclear = (f"{verdict} in {standings.count(verdict)}" for verdict in VERDICTS)
    return f"Of {len(standings)} rows with an interval, the promise is {kept}, {broken}, and {unclear}."
