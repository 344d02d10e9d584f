"""Theorem 1 of the paper: the success probability that it promises, beside the one that was measured."""

from __future__ import annotations

from dataclasses import dataclass, replace

from prmcal.harness.report.evidence import Evidence, Group, Value, Values
from prmcal.harness.report.exhibits import Panel, Row, Table, labels_of, titles_of

_PASS = "pass_at_n"
_CAPTION = (
    "Theorem 1 of the paper is about best-of-N_IAS with the reward at the level beta, if samples are not limited "
    "and the PRM finds a right answer whenever there is one. Its success probability is at least C (1 - beta~). "
    "The number beta~ is at least beta; for a plain quantile it is not known. 'Promised' is C (1 - beta): what "
    "the theorem says of a quantile that has its level on the test questions. pass@N_IAS is measured for '{}'; the "
    "ranking of answers plays no part in it. Kept: the whole interval of pass@N_IAS is at or above the promise. Not "
    "kept: it is below. Open: the promise lies within the interval. Below each value is its 95% interval over "
    "questions; n is the number of trajectories (for the coverage: of prefixes) / questions. Calibrators with a point "
    "estimate predict no quantile and are left out."
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
# Why a promise is not kept, by the verdict on pass@N of the full budget.
_CAUSES = {
    "kept": "the full budget keeps the promise, so that IAS draws too few samples: the reward is too high",
    "not kept": "pass@N of the full budget is below the promise too, so that the limit N alone breaks it",
    "open": "it is open whether the full budget keeps the promise",
}


@dataclass(frozen=True)
class _Promise:
    """A setting of best-of-n + IAS for which Theorem 1 promises a success probability.

    Attributes
    ----------
    promised : Value
        C (1 - beta): Theorem 1 for a quantile that has its level on new questions.
    measured : Value
        pass@N_IAS. Its standing says whether the promise is kept.
    full : Value
        pass@N of the fixed budget N.
    """

    promised: Value
    measured: Value
    full: Value

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the group and of the calibrator."""
        return (*labels_of(self.promised.group), self.promised.calibrator or "")


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
        _CAPTION.format(promises[0].promised.strategy),
        (_promise_panel(evidence, promises), *_coverage_panel(evidence, promises)),
        remarks=(_summary(evidence, promises), _REASONS),
    )


def _promises(evidence: Evidence) -> list[_Promise]:
    fixed, adaptive = evidence.strategies_of_paper("bon_qwen")
    if not adaptive:
        return []
    strategy = adaptive[0]  # it has no arguments, so that all of its names have the same results
    measured = evidence.measured[evidence.measured["strategy"] == strategy]
    found = []
    for (target, level), cells in measured.groupby(["target", "level"]):
        values, promised = Values(cells), target * (1 - level)
        for group in evidence.groups:
            for calibrator in filter(evidence.predicts_quantiles, evidence.calibrators):
                value = values.value(group, calibrator, _PASS, strategy)
                if value.status != "missing":
                    ours = Value(group, calibrator, "promised", "done", promised, strategy=strategy)
                    found.append(
                        _Promise(
                            replace(ours, target=target, level=level),
                            replace(_judged(value, promised), target=target, level=level),
                            _full(evidence, group, fixed),
                        )
                    )
    order = {name: place for place, name in enumerate(evidence.calibrators)}
    places = {group: place for place, group in enumerate(evidence.groups)}
    return sorted(found, key=lambda each: (places[each.promised.group], order[each.labels[-1]]))


def _full(evidence: Evidence, group: Group, fixed: list[str]) -> Value:
    """Return pass@N of the first strategy with a fixed budget that has it."""
    values = (evidence.strategy_value(group, each, None, _PASS) for each in fixed)
    reason = "The grid has no best-of-n with the full budget."
    missing = Value(group, None, _PASS, "missing", reason=reason)
    return next((each for each in values if each.value is not None), missing)


def _judged(value: Value, promised: float) -> Value:
    """Return a value with the verdict on a promise as its standing."""
    if value.low is None or value.high is None:
        return replace(value, standing=None)
    verdict = "kept" if value.low >= promised else "not kept" if value.high < promised else "open"
    return replace(value, standing=verdict)


def _promise_panel(evidence: Evidence, promises: list[_Promise]) -> Panel:
    rows = []
    for each in promises:
        labels = (*each.labels, f"{each.promised.target:g}", f"{each.promised.level:g}")
        rows.append(Row(labels, (each.promised, each.measured, each.full)))
    return Panel(
        name="promise",
        title="Promised and measured",
        description=evidence.described.description(_PASS),
        coordinates=titles_of("calibrator", "target", "level"),
        heads=(("", ("Promised", "pass@N_IAS", "pass@N, full budget")),),
        rows=tuple(rows),
    )


def _coverage_panel(evidence: Evidence, promises: list[_Promise]) -> list[Panel]:
    """Return a panel with the coverage of each quantile, or an empty list if the run measures none of the levels."""
    rows = {}
    for each in promises:
        group, calibrator, level = each.promised.group, each.labels[-1], each.promised.level or 0.0
        metric = f"coverage_{level:g}"
        if metric in evidence.metrics:
            ideal = Value(group, calibrator, "ideal_coverage", "done", 1 - level, level=level)
            measured = replace(evidence.value(group, calibrator, metric), level=level)
            rows[*each.labels, f"{level:g}"] = (ideal, measured)
    panel = Panel(
        name="coverage",
        title="Coverage of the quantiles",
        description="How often the success probability is at least the reward at the level beta, over the prefixes of "
        "the test questions. It is 1 - beta if the quantile has its level there. Theorem 1 is about the bare "
        "questions, which are some of the prefixes.",
        coordinates=titles_of("calibrator", "level"),
        heads=(("", ("1 - beta", "Coverage")),),
        rows=tuple(Row(labels, values) for labels, values in rows.items()),
    )
    return [panel] if rows else []


def _summary(evidence: Evidence, promises: list[_Promise]) -> str:
    """Say in how many rows the promise is not kept, and why."""
    measured = [each for each in promises if each.measured.standing is not None]
    if not measured:
        return "No row has an interval yet, so that nothing can be said about the promise."
    standings = [each.measured.standing for each in measured]
    words = [
        f"Of {len(measured)} rows with an interval, the promise is kept in {standings.count('kept')}, not kept in "
        f"{standings.count('not kept')}, and open in {standings.count('open')}."
    ]
    broken = [each for each in measured if each.measured.standing == "not kept"]
    if broken:
        shares = []
        for name in evidence.datasets:
            rows = [each for each in measured if each.promised.group.dataset == name]
            shares += [f"{sum(each in broken for each in rows)} of {len(rows)} on {name}"] if rows else []
        words.append(f"Not kept: {', '.join(shares)}.")
        causes = [_judged(each.full, each.promised.value or 0.0).standing or "open" for each in broken]
        words += [
            f"In {causes.count(verdict)} of these rows {meaning}."
            for verdict, meaning in _CAUSES.items()
            if verdict in causes
        ]
    return " ".join(words)
