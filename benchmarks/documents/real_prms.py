"""What the scores of published PRMs are worth, for the README and the page of claims.

    python -m benchmarks.documents.real_prms

audits the shipped pools of PRMs, keeps the figures in ``docs/pools``, and draws ``docs/reading-steps.svg``.
`benchmarks.documents` writes the texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

import prmcal
from benchmarks.tables import keep, kept_in, markdown, measured, paragraph, signed
from prmcal.db import charts
from prmcal.db.statistics.intervals import bounded_interval, signed_interval
from prmcal.harness.audit.audit import Audit
from prmcal.harness.audit.estimates import OUTER, Rows, calibrated_rewards, fit_calibrator, folds_of, mean_of
from prmcal.harness.audit.readings import CHOSEN, WORDS
from prmcal.registry.strategies.aggregation import READINGS, read_steps

POOLS = Path(__file__).parents[2] / "docs" / "pools"
QWEN = "qwen2.5-math-prm-7b"
PRMS = {
    QWEN: "qwen2.5-math-1.5b",
    "math-shepherd-7b": "qwen2.5-1.5b",
    "rlhflow-8b-llama-3.1-8b": "llama-3.1-8b-int4",
    "rlhflow-8b-llama-3.2-3b": "llama-3.2-3b-int4",
}
"""The shipped pools of PRMs, each with its LLM."""
NAMES = {QWEN: "Qwen2.5-Math-PRM-7B", "math-shepherd-7b": "Math-Shepherd-7B"}
LAST, REPAIRED = "Last step", "Reading and fit, unseen questions"
_BINS = 8


def record() -> None:
    """Keep the figures of all pools, and draw the picture."""
    tables, levels, steps = [], [], []
    for pool, llm in PRMS.items():
        audited = prmcal.audit(f"pool:{pool}")
        solutions = audited.solutions
        size = {"questions": solutions["question"].nunique(), "solutions": len(solutions)}
        mixed = [None if reading.auc is None else reading.auc.questions for reading in audited.readings]
        steps.append(audited.tables["steps"].assign(pool=pool, **size))
        rows = Rows(solutions)
        right = mean_of(rows.label, rows, bounded_interval).columns("accuracy")
        tables.append(audited.tables["readings"].assign(mixed=mixed, pool=pool, llm=llm, **size, **right))
        errors = rows.reward - rows.label
        for level in sorted(solutions["level"].unique()):
            at_level = (solutions["level"] == level).to_numpy()
            error = mean_of(errors[at_level], rows, signed_interval, at_level)
            levels.append({"pool": pool, "level": level, **error.columns("error"), "questions": error.questions})
        if pool == QWEN:
            points = reliability(audited)
            keep(points, POOLS, "reliability")
            (POOLS.parent / "reading-steps.svg").write_bytes(picture(points))
    keep(pd.concat(tables), POOLS, "readings")
    keep(pd.concat(steps), POOLS, "places")
    keep(pd.DataFrame(levels), POOLS, "levels")


def reliability(audited: Audit) -> pd.DataFrame:
    """Return how often solutions with like scores are right, as they are and repaired.

    The reading of the steps and isotonic regression on it are chosen and fitted on the other folds of the questions.
    """
    groups = audited.prefixes.sort_values("step").groupby(["question", "solution"])
    scores = [prefixes["reward"].to_numpy() for _, prefixes in groups]
    solutions = groups["label"].last().reset_index()
    rows = {way: Rows(solutions.assign(reward=read_steps(scores, way))) for way in READINGS}
    repaired, last = np.empty(len(solutions)), rows["last"]
    folds = folds_of(last.question, OUTER)
    for fold in range(OUTER):
        others = folds != fold
        errors = {way: np.mean((table.reward - table.label)[others] ** 2) for way, table in rows.items()}
        best = rows[min(errors, key=errors.__getitem__)]
        repaired[~others] = calibrated_rewards(fit_calibrator("isotonic", best, others), best, ~others)
    points = []
    for series, values in {LAST: last.reward, REPAIRED: repaired}.items():
        edges = np.unique(np.quantile(values, np.arange(1, _BINS) / _BINS))
        bins = np.searchsorted(edges, values, side="right")
        for in_bin in (bins == bin_ for bin_ in np.unique(bins)):
            right = mean_of(last.label[in_bin], last, bounded_interval, in_bin).columns("right")
            points.append({"series": series, "score": values[in_bin].mean(), "solutions": in_bin.sum(), **right})
    return pd.DataFrame(points)


def picture(points: pd.DataFrame) -> bytes:
    """Return the reliability before and after as SVG, in two panels with equal axes."""
    panels, style = [], charts.series_of([LAST, REPAIRED], [LAST, REPAIRED])
    for series, colour in zip(style.names, style.colours, strict=True):
        base = alt.Chart(points[points["series"] == series].rename(columns={"right_low": "low", "right_high": "high"}))
        base = base.encode(x=alt.X("score:Q", scale=charts.UNIT, title="the score says"), color=alt.value(colour))
        y = alt.Y("right:Q", scale=charts.UNIT, title="share that is right")
        layers = alt.layer(charts.diagonal(), *charts.intervals(base, y, size=90))
        panels.append(layers.properties(width=250, height=250, title=series))
    drawn = charts.styled(alt.hconcat(*panels, spacing=30), 11)
    return charts.with_dark_style(charts.svg_of(drawn)).encode()


def _rows() -> dict[str, pd.DataFrame]:
    table = kept_in(POOLS, "readings")
    return {pool: table[table["pool"] == pool].set_index("reading") for pool in PRMS}


def _names(pool: str, row: Mapping[str, Any]) -> str:
    return f"{NAMES.get(pool, 'RLHFlow-Deepseek-8B')}, {row['llm']}"


def _size(row: Mapping[str, Any]) -> str:
    return f"{row['accuracy']:.3f} of {row['questions']} x {row['solutions'] // row['questions']}"


def caption() -> str:
    """Return what the picture of the README shows: most of the repair is the reading of the steps."""
    rows = _rows()[QWEN]
    last, chosen = rows.loc["last"], rows.loc[CHOSEN]
    assert chosen["calibrated_high"] < last["brier_low"], "the repair is clear"
    return paragraph(
        f"{NAMES[QWEN]} on MATH-500 ({last['questions']} questions). Brier score of the last step:",
        f"{measured(last, 'brier')}; of the best reading of the steps: {measured(chosen, 'brier')}; with a fit on top:",
        f"{measured(chosen, 'calibrated')}.",
    )


def real_table() -> str:
    """Return a row for each PRM and LLM: how far its scores are off, by reading, and how they rank."""
    table, lines = kept_in(POOLS, "levels"), []
    for pool, rows in _rows().items():
        last, smallest, chosen = (rows.loc[name] for name in ("last", "min", CHOSEN))
        best, ranks = rows.loc[[*WORDS]]["brier"].idxmin(), "-"
        if last["auc"] == last["auc"]:
            ranks = f"{measured(last, 'auc')}, {measured(smallest, 'auc')} ({last['mixed']:.0f} mixed questions)"
        lines.append(
            {
                "PRM, LLM": _names(pool, last),
                "right": _size(last),
                "last step - right": signed(last),
                "by level 1 to 5": " ".join(f"{error:+.2f}" for error in table[table["pool"] == pool]["error"]),
                "smallest step - right": signed(smallest),
                "isotonic on the last step": measured(last, "calibrated"),
                "on a reading chosen in folds": f"{measured(chosen, 'calibrated')} ({WORDS[best]})",
                "AUC within questions: last, smallest": ranks,
            }
        )
    return markdown(pd.DataFrame(lines))


def places_table() -> str:
    """Return the mean of score - outcome of prefixes by their place, for each pool."""
    table = kept_in(POOLS, "places")
    parts = {part: of_part.set_index("pool") for part, of_part in table.groupby("part", sort=False)}
    lines = [{"prefix": part, **{pool: signed(of_part.loc[pool]) for pool in PRMS}} for part, of_part in parts.items()]
    smallest = {pool: signed(rows.loc["min"]) for pool, rows in _rows().items()}
    return markdown(pd.DataFrame([*lines, {"prefix": "whole solution, smallest step", **smallest}]))


def readings_table() -> str:
    """Return the Brier score of whole solutions by each reading, for each pool."""
    rows = _rows()
    lines = [
        {
            "reading": WORDS.get(reading, reading),
            **{pool: measured(of_pool.loc[reading], "brier") for pool, of_pool in rows.items()},
        }
        for reading in (*WORDS, CHOSEN)
    ]
    return markdown(pd.DataFrame(lines))


def real_findings() -> list[str]:
    """Return what the pools of PRMs show, in sentences."""
    rows = _rows()
    last = {pool: of_pool.loc["last"] for pool, of_pool in rows.items()}
    chosen = {pool: of_pool.loc[CHOSEN] for pool, of_pool in rows.items()}
    assert all(row["error_low"] > 0 for row in last.values()), "all PRMs are too high by the last step"
    assert all(row["cut_low"] > 0 for row in chosen.values()), "another reading is better for all"
    large = [pool for pool in rows if chosen[pool]["cut"] > last[pool]["brier"] - last[pool]["calibrated"]]
    assert large, "a reading cuts more than a calibrator"
    qwen = rows[QWEN]
    return [
        "Read by their last step, three published PRMs at MATH-500 are too high, in four pools: by "
        + ", ".join(signed(row) for row in last.values())
        + f" (n = {last[QWEN]['questions']} each).",
        f"How the steps are read matters as much as a calibrator. The last step of Qwen's PRM has a Brier score of "
        f"{measured(last[QWEN], 'brier')}, after isotonic regression {measured(last[QWEN], 'calibrated')}, and its "
        f"smallest step {measured(qwen.loc['min'], 'brier')} as it is. Chosen in folds, a reading cuts more than this "
        f"calibrator in {len(large)} of {len(rows)} pools.",
    ]


def higher_at_5() -> int:
    """Return in how many pools the errors at level 5 lie clearly above those at level 1."""
    levels = kept_in(POOLS, "levels")
    easy, hard = (levels[levels["level"] == level].set_index("pool") for level in (1, 5))
    return int((hard["error_low"] > easy["error_high"]).sum())


if __name__ == "__main__":
    record()
