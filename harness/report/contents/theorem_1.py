"""Theorem 1 of the paper: the success probability that it promises, beside the one that was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from prmcal.db.text.presentation import COORDINATE_TITLES
from prmcal.harness.report.contents.scaling_tables import strategies_of_paper
from prmcal.harness.report.evidence.read import Evidence
from prmcal.harness.report.evidence.scaling import strategy_value
from prmcal.harness.report.evidence.values import Group, Value
from prmcal.harness.report.exhibits.types import Panel, Row, Table, labels_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["theorem_1"]

_PASS = "pass_at_n"

_CAUSES = {
    "reward": "the full budget keeps the promise, so that IAS draws too few samples: the reward is too high",
    "limit": "pass@N of the full budget is below the promise too, so that the limit N alone breaks it",
    "open": "it is open whether the full budget keeps the promise",
}


@dataclass(frozen=True)
class _Promise:
    """A setting of best-of-n + IAS for which Theorem 1 promises a success probability.

    Attributes
    ----------
    group : Group
    strategy, calibrator : str
    target, level : float
        C and beta.
    measured : Value
        pass@N_IAS. Its standing says whether the promise is kept.
    full : Value or None
        pass@N of the fixed budget N.
    """

    group: Group
    strategy: str
    calibrator: str
    target: float
    level: float
    measured: Value
    full: Value | None

    @property
    def promised(self) -> float:
        """C (1 - beta): Theorem 1 for a quantile that has its level on new questions."""
        return self.target * (1 - self.level)

    @property
    def cause(self) -> str:
        """Says whether N samples are enough for the promise: "limit" (no), "reward" (yes) or "open"."""
        ends = (None, None) if self.full is None else (self.full.low, self.full.high)
        verdict = _verdict(self.promised, *ends)
        return {"kept": "reward", "not kept": "limit"}.get(verdict or "", "open")


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
    promises = _promises(evidence)
    if not promises:
        return None
    return Table(
        "theorem-1",
        "Theorem 1: what it promises, and what was measured",
        "Theorem 1 of the paper is about best-of-N_IAS with the reward at the level beta, if samples are not limited "
        "and the PRM finds a right answer whenever there is one. Its success probability is at least C (1 - beta~). "
        "The number beta~ is at least beta; for a plain quantile it is not known. 'Promised' is C (1 - beta): what "
        "the theorem says of a quantile that has its level on the test questions. pass@N_IAS is measured for "
        f"'{promises[0].strategy}'; the ranking of answers plays no part in it. Kept: the whole interval of "
        "pass@N_IAS is at or above the promise. Not kept: it is below. Open: the promise lies within the interval. "
        "Below each value is its 95% interval over questions; n is the number of trajectories (for the "
        "coverage: of prefixes) / questions. Calibrators with a point estimate predict no quantile and are left out.",
        (_promise_panel(evidence, promises), *_coverage_panel(evidence, promises)),
        remarks=(_summary(evidence, promises), _REASONS),
    )


_REASONS = (
    "The promise can fail for three reasons. First, the quantile was fitted to the calibration questions, and the "
    "theorem is about questions of the same distribution. On others, such as another data set or harder questions, "
    "beta~ may be far above beta. Second, a plain quantile need not have its level even on questions of the same "
    "distribution. Only a conformal bound is corrected so that beta~ = beta there. In both cases the coverage is "
    "below 1 - beta. Third, the theorem does not limit the samples, while IAS draws at most N. Where pass@N of the "
    "full budget is below the promise, no reward can keep it. The promise can also be kept with a coverage below "
    "1 - beta, because C (1 - beta) counts every question with too high a reward as lost."
)


def _promises(evidence: Evidence) -> list[_Promise]:
    fixed, adaptive = strategies_of_paper(evidence, "bon_qwen")
    if not adaptive:
        return []
    strategy = adaptive[0]  # it has no arguments, so that all of its names have the same results
    measured = evidence.scaling.measured
    measured = measured[measured["strategy"] == strategy]
    found = []
    for group in evidence.groups:
        for calibrator in filter(evidence.scaling.predicts_quantiles, evidence.calibrators):
            here = measured[_in_group(measured, group) & (measured["calibrator"] == calibrator)]
            settings = sorted(set(here[["target", "level"]].dropna().itertuples(index=False, name=None)))
            for target, level in settings:
                cells = here[(here["target"] == target) & (here["level"] == level)]
                value = strategy_value(cells, group, strategy, calibrator, _PASS)
                verdict = _verdict(target * (1 - level), value.low, value.high)
                value = replace(value, standing=verdict, target=target, level=level)
                full = _full(evidence, group, fixed)
                found.append(_Promise(group, strategy, calibrator, target, level, value, full))
    return found


def _in_group(cells: pd.DataFrame, group: Group) -> pd.Series[bool]:
    return (cells["dataset"] == group.dataset) & (cells["prm"] == group.prm) & (cells["llm"] == group.llm)


def _full(evidence: Evidence, group: Group, fixed: Sequence[str]) -> Value | None:
    """Return pass@N of the first strategy with a fixed budget that has it."""
    cells = evidence.scaling.cells
    cells = cells[cells["metric"] == _PASS]
    values = (strategy_value(cells, group, each, None, _PASS) for each in fixed)
    return next((each for each in values if each.value is not None), None)


def _verdict(promised: float, low: float | None, high: float | None) -> str | None:
    if low is None or high is None:
        return None
    return "kept" if low >= promised else "not kept" if high < promised else "open"


def _promise_panel(evidence: Evidence, promises: Sequence[_Promise]) -> Panel:
    rows = []
    for each in promises:
        promised = Value(
            each.group,
            each.calibrator,
            "promised",
            "done",
            each.promised,
            strategy=each.strategy,
            target=each.target,
            level=each.level,
        )
        missing = Value(
            each.group, None, _PASS, "missing", reason="The grid has no best-of-n with the full budget."
        )
        labels = (*_labels(each), f"{each.target:g}", f"{each.level:g}")
        rows.append(Row(labels, (promised, each.measured, each.full or missing)))
    return Panel(
        name="promise",
        title="Promised and measured",
        description=evidence.described.description(_PASS),
        coordinates=_titles("target", "level"),
        heads=(("", ("Promised", "pass@N_IAS", "pass@N, full budget")),),
        rows=tuple(rows),
    )


def _coverage_panel(evidence: Evidence, promises: Sequence[_Promise]) -> list[Panel]:
    """Return a panel with the coverage of each quantile, or an empty list if the run measures none of the levels."""
    quantiles = {(each.group, each.calibrator, each.level): _labels(each) for each in promises}
    rows = []
    for (group, calibrator, level), labels in quantiles.items():
        metric = f"coverage_{level:g}"
        if metric in evidence.metrics:
            ideal = Value(group, calibrator, "ideal_coverage", "done", 1 - level, level=level)
            measured = replace(evidence.value(group, calibrator, metric), level=level)
            rows.append(Row((*labels, f"{level:g}"), (ideal, measured)))
    panel = Panel(
        name="coverage",
        title="Coverage of the quantiles",
        description="How often the success probability is at least the reward at the level beta, over the prefixes of "
        "the test questions. It is 1 - beta if the quantile has its level there. Theorem 1 is about the bare "
        "questions, which are some of the prefixes.",
        coordinates=_titles("level"),
        heads=(("", ("1 - beta", "Coverage")),),
        rows=tuple(rows),
    )
    return [panel] if rows else []


def _labels(promise: _Promise) -> tuple[str, ...]:
    return (*labels_of(promise.group), promise.calibrator)


def _titles(*names: str) -> tuple[str, ...]:
    return tuple(COORDINATE_TITLES[name] for name in ("dataset", "prm", "llm", "calibrator", *names))


def _summary(evidence: Evidence, promises: Sequence[_Promise]) -> str:
    """Say in how many rows the promise is not kept, and why."""
    measured = [each for each in promises if each.measured.standing is not None]
    if not measured:
        return "No row has an interval yet, so that nothing can be said about the promise."
    broken = [each for each in measured if each.measured.standing == "not kept"]
    kept = sum(each.measured.standing == "kept" for each in measured)
    words = [
        f"Of {len(measured)} rows with an interval, the promise is kept in {kept}, not kept in {len(broken)}, and open "
        f"in {len(measured) - kept - len(broken)}."
    ]
    if broken:
        of = {name: [each for each in measured if each.group.dataset == name] for name in evidence.datasets}
        shares = [
            f"{sum(each in broken for each in rows)} of {len(rows)} on {name}"
            for name, rows in of.items()
            if rows
        ]
        causes = [each.cause for each in broken]
        words.append(f"Not kept: {', '.join(shares)}.")
        words += [
            f"In {causes.count(cause)} of these rows {meaning}."
            for cause, meaning in _CAUSES.items()
            if cause in causes
        ]
    return " ".join(words)
