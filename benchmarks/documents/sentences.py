"""The text at the places that documents mark for figures: tables and sentences.

A sentence that claims more than its numbers say follows an assertion of this claim.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from benchmarks.documents.aims import comparison
from benchmarks.documents.claims import claims, default_rule, nano_settings, pool_findings
from benchmarks.documents.figures import FIGURES, Figures
from benchmarks.documents.real_prms import caption, places_table, readings_table, real_table
from benchmarks.documents.smollm import smollm_findings, smollm_summary
from benchmarks.tables import kept_in, markdown, measured, numbered, paragraph, percents, rows_where
from prmcal.db.metrics import SETTING, Leaderboard, Metrics
from prmcal.db.text.board import leaderboard_board
from prmcal.harness.audit.audit import audit
from prmcal.harness.audit.verdict import verdict
from prmcal.harness.planning.resolved import built_in_metrics
from prmcal.harness.terminal import UNLIMITED, text_table

_ROOT = Path(__file__).parents[2]
_NARROW = 80
_SHOWN = 5
"""The lines of the demo's ranking that the README shows, with its head."""
_MATH, _AIME, _PRM = "nano-math", "nano-aime", "nano-prm"
_PAPERS, _RAW, _RIVAL = "quantile-lora", "uncalibrated", "beta-binomial"
_ANSWERS_ONLY = ("adaptive consistency", "ESC")
"""The rules that stop by the answers alone."""
_BY_SCORES = "first good enough"
"""The rule that stops by the scores of the samples in hand."""


def _calibration_example(figures: Figures) -> str:
    table = figures.calibration
    chosen = (table["dataset"] == _MATH) & (table["llm"] == "nano-weak") & (table["prm"] == _PRM)
    return _printed(table[chosen], "calibration", ["brier_corrected", "adaptive_ce_corrected", "signed_error"])


def _scaling_example(figures: Figures) -> str:
    table = figures.scaling
    chosen = table[(table["llm"] == "nano-middle") & (table["dataset"] == _MATH)]
    chosen = chosen[chosen["prm"].isna() | (chosen["prm"] == _PRM)]
    chosen = chosen[chosen["calibrator"].isna() | chosen["calibrator"].isin([_RAW, _PAPERS])]
    return _printed(chosen, "scaling", ["accuracy", "budget_ratio"])


def _printed(rows: pd.DataFrame, name: Leaderboard, metrics: Sequence[str]) -> str:
    """Return rows of a leaderboard as the terminal shows them, without what is equal in all of them."""
    board = leaderboard_board(rows.assign(cell_id="", difference=math.nan), name, Metrics(built_in_metrics()), metrics)
    shown = board.columns[: board.names + len(metrics)]
    columns = [column for column in shown if len(set(column.values)) > 1]
    values = list(zip(*(column.values for column in columns), strict=True))
    text = text_table([column.title for column in columns], values, UNLIMITED)
    lines = textwrap.dedent(text.strip("\n")).splitlines()
    return "\n".join(["```text", *(line.rstrip() for line in lines), "```"])


def _audit() -> str:
    """The answer for the shipped file, as a terminal shows it."""
    shipped = audit(_ROOT / "grids" / "scored.jsonl")
    answer = verdict(shipped.scored, shipped.measured, shipped.choices, _NARROW, shipped.readings)
    return "\n".join(["```text", answer, "```"])


def _audit_speed() -> str:
    table = kept_in(FIGURES, "speed").set_index("what")
    ((what, row),) = table[table.index.str.startswith("`prmcal audit`")].iterrows()
    return paragraph(
        f"An audit of {what.partition(' of ')[2]} takes {row['seconds']:.0f} seconds of processor time and",
        f"{row['remark']}. (`python -m benchmarks storage`)",
    )


def _duration(figures: Figures) -> str:
    about, seconds = figures.about, figures.about["worker_seconds"]
    total, searching = sum(seconds.values()), seconds["search"]
    return paragraph(
        f"The whole grid (`make nano`) fills {about['cells']} cells. A run with {about['timed_cells']} cells",
        f"took about {total / 120:.0f} minutes on two free cores, {searching / 120:.0f} of them for beam search.",
    )


def _audit_start() -> str:
    """The first sentences of the answer for the shipped file."""
    return f"{_audit().partition(chr(10) * 2)[0]}\n```"


def _demo(figures: Figures) -> str:
    """The sentences and the first calibrators that a run of the demo ends with."""
    sentences, ranking = figures.demo.split("\n\n")[:2]
    return "\n".join(["```text", sentences, "", *ranking.splitlines()[:_SHOWN], "...", "```"])


def _findings(figures: Figures) -> str:
    """Four findings. Their words follow the figures; what they take for granted is asserted."""
    rows = figures.ranking.set_index("calibrator")
    raw, papers = rows.loc[_RAW], rows.loc[_PAPERS]
    assert raw["signed_error_low"] > 0, "uncalibrated scores are too high"
    best = rows[rows["rank_low"] == 1].sort_values("brier_reduction", ascending=False)
    key = "brier_reduction"
    reductions = " and ".join(f"`{name}` by {percents(row, key)}" for name, row in best.head(2).iterrows())
    also = "" if _PAPERS in best.index[:2] else f", and the paper's `{_PAPERS}` by {percents(papers, key)}"
    first = figures.league.iloc[0]
    at = nano_settings(figures)
    gains = "no rule clearly gains" if first["area_gain_low"] <= 0 else "some rules gain"
    sentences = (
        f"Raw scores are too high by {measured(raw, 'signed_error')} on average, {at['too high']}.",
        f"The best calibrators lower the [noise-corrected](concepts/calibration.md) Brier score: {reductions}{also}.",
        f"Best-of-n with IAS and `{_PAPERS}` takes {measured(papers, 'ias_samples', '.1f')} of 64 samples. Its "
        f"accuracy differs by {measured(papers, 'ias_to_best_of_n', '.1f', 100)} points from best-of-64, and by "
        f"{measured(papers, 'ias_to_equal_cost', '.1f', 100)} from a fixed n of the same cost.",
        f"At equal cost, {gains} over a fixed n ([league](how-to/league.md)).",
    )
    return numbered(sentences)


def _not_bought(figures: Figures) -> str:
    """Say whether a rule that stops early gains over a fixed number of samples of equal cost."""
    table = figures.league
    early = table[table["strategy"].isin([*_ANSWERS_ONLY, _BY_SCORES, "best-of-n + IAS"])]
    assert (early["area_gain_low"] <= 0).all(), "no rule that stops early gains"
    return paragraph(
        "What it does not buy: with the shipped models, no way of stopping early is clearly better than a fixed number",
        "of samples of equal cost. [Evidence](docs/concepts/claims.md).",
    )


def _league(figures: Figures) -> str:
    """The table of the entries, best first: of each strategy the best one, and that of the paper's calibrator."""
    table = figures.league
    chosen = table[~table["strategy"].duplicated() | (table["calibrator"] == _PAPERS)]
    rows = pd.DataFrame(
        {
            "rank": [
                "-" if pd.isna(low) else f"{low:.0f}" if low == high else f"{low:.0f}-{high:.0f}"
                for low, high in zip(chosen["rank_low"], chosen["rank_high"], strict=True)
            ],
            "strategy": chosen["strategy"],
            "calibrator": chosen["calibrator"].fillna(""),
            "gain over a fixed n (points)": [measured(row, "area_gain", ".1f", 100) for _, row in chosen.iterrows()],
            "with 4 samples": [percents(row, "accuracy_at_4", 1) for _, row in chosen.iterrows()],
            "with 16 samples": [percents(row, "accuracy_at_16", 1) for _, row in chosen.iterrows()],
        }
    )
    return markdown(rows)


def _league_reading(figures: Figures) -> str:
    """Say how the kinds of rules compare."""
    best = figures.league.drop_duplicates("strategy").set_index("strategy")
    first = figures.league.iloc[0]
    others = int(figures.league["rank"].notna().sum()) - 1
    ias = 100 * figures.league[figures.league["strategy"] == "best-of-n + IAS"]["area_gain"]
    votes = 100 * best.loc[list(_ANSWERS_ONLY), "area_gain"]
    ahead = "is ahead of" if first["rank_high"] == 1 else "leads, but is not clearly ahead of all of"
    gain = measured(best.loc[_BY_SCORES], "area_gain", ".1f", 100)
    calibrated = "" if pd.isna(first["calibrator"]) else f" with `{first['calibrator']}`"
    return paragraph(
        f"`{first['strategy']}`{calibrated} {ahead} the other {others} entries.",
        f"`{_BY_SCORES}` stops by the scores of the samples in hand and changes the accuracy of a fixed n by",
        f"{gain} points. IAS changes it by {_span(ias, '+.1f')} points, by the calibrator, and rules that look at",
        f"answers only by {_span(votes, '+.1f')}. The random orders leave a standard error of at most",
        f"{100 * figures.league['order_error'].max():.2f} points.",
    )


def _overestimation_of_the_prm(figures: Figures) -> str:
    table = figures.overestimation
    chosen = table[table["PRM"] == _PRM]
    signed = [_value(text) for text in chosen[chosen["data set"] == _MATH]["signed error"]]
    assert signed == sorted(signed, reverse=True), "it overestimates more for the weaker policies"
    hard = chosen[chosen["data set"] == _AIME]
    drawn = [_value(text) for text in hard["IAS samples, uncalibrated"]]
    needed = [_value(text) for text in hard["samples needed"]]
    text = paragraph(
        "The PRM was trained on success rates of the strong policy, and overestimates more for the weaker ones on",
        f"nano-math. On nano-aime, IAS with its rewards draws {_span(drawn, '.1f')} samples where",
        f"{_span(needed, '.0f')} are needed.",
    )
    shown = ["data set", "LLM", "pass@1", "signed error", "IAS samples, uncalibrated", "samples needed"]
    return f"{markdown(chosen[shown])}\n\n{text}"


def _calibrators(figures: Figures) -> str:
    table = figures.calibration
    briers = table.pivot(index=SETTING, columns="calibrator", values="brier_corrected").idxmin(axis=1)
    metrics = {"Brier, corrected": (table, "brier_corrected")} | {
        f"Adaptive CE, {data}": (table[table["dataset"] == data], "adaptive_ce_corrected") for data in (_MATH, _AIME)
    }
    rows = pd.DataFrame(
        {"against": f"`{rival}`", **{title: _against(rival, *of) for title, of in metrics.items()}}
        for rival in (_RIVAL, "histogram", "isotonic", "ats")
    )
    text = paragraph(
        f"The paper's calibrator, `{_PAPERS}`, has the lowest Brier score at {(briers == _PAPERS).sum()} of",
        f"{len(briers)} settings, and `{_RIVAL}` at {(briers == _RIVAL).sum()}. The table counts the settings in which",
        f"a paired test finds `{_PAPERS}` better than another calibrator. The run has one seed and is of one machine.",
        "On another one, fits by gradient descent can differ in the third digit.",
    )
    return f"{text}\n\n{markdown(rows)}"


def _against(rival: str, table: pd.DataFrame, metric: str) -> str:
    """Return in how many settings quantile-lora is significantly better, and worse, than a calibrator."""
    values = table.pivot(index=SETTING, columns="calibrator", values=metric).abs()
    differs = table.pivot(index=SETTING, columns="calibrator", values=f"{metric}_differs")[rival].astype(bool)
    better, worse = values[_PAPERS] < values[rival], values[_PAPERS] > values[rival]
    also = f" (worse in {(worse & differs).sum()})" if (worse & differs).any() else ""
    return f"{(better & differs).sum()} of {len(differs)}{also}"


def _reading(figures: Figures) -> str:
    table, judged = figures.overestimation, figures.verification
    signed = table.assign(error=table["signed error"].map(_value)).groupby(["data set", "PRM"])["error"]
    ordered = signed.apply(lambda errors: list(errors) == sorted(errors, reverse=True))
    areas = judged["AUC within a question"].map(_value).groupby(judged["data set"])
    gaps = (judged["best-of-N"].map(_value) - judged["pass@1"].map(_value)).groupby(judged["PRM"] == _PRM)
    hard = table[table["data set"] == _AIME]
    errors, drawn, passed = (hard[name].map(_value) for name in ("signed error", "IAS samples, uncalibrated", "pass@1"))
    return paragraph(
        f"The AUC within a question is {_span(areas.get_group(_MATH))} on nano-math and",
        f"{_span(areas.get_group(_AIME))} on nano-aime.",
        f"With `nano-prm`, best-of-64 differs from pass@1 by {_span(gaps.get_group(True), '+.2f')}, and with the other",
        f"PRMs by {_span(gaps.get_group(False), '+.2f')}.",
        f"On nano-math, {ordered[_MATH].sum()} of the {len(ordered[_MATH])} PRMs overestimate more for each weaker",
        f"policy. On nano-aime the signed errors are {_span(errors, '+.2f')}:",
        f"uncalibrated IAS draws {_span(drawn, '.1f')} samples, while {_span(passed)} of the samples succeed.",
    )


def _strategies(figures: Figures) -> str:
    table = figures.scaling
    math = table[(table["dataset"] == _MATH) & (table["prm"].isna() | (table["prm"] == _PRM))]
    ias, fixed = "best-of-n + IAS", "fixed n of equal cost"
    columns = {
        "LLM": ["nano-weak", "nano-middle", "nano-strong"],
        "majority vote": _by_llm(math, "majority vote"),
        "best-of-64": _by_llm(math, "best-of-n"),
        f"IAS, {_PAPERS}": _by_llm(math, ias, _PAPERS),
        "its share of the samples": _by_llm(math, ias, _PAPERS, "budget_ratio"),
        "fixed n of its cost": _by_llm(math, fixed, _PAPERS),
        f"IAS, {_RAW}": _by_llm(math, ias, _RAW),
        "share of the samples": _by_llm(math, ias, _RAW, "budget_ratio"),
    }
    return markdown(pd.DataFrame(columns))


def _searches(figures: Figures) -> str:
    table = figures.scaling
    searches = table[(table["dataset"] == _MATH) & table["strategy"].str.startswith("beam search")]
    kinds = searches.groupby(["strategy", searches["calibrator"].fillna("")], sort=False)
    rows = pd.DataFrame(
        {
            "search": strategy,
            "calibrator": calibrator,
            "accuracy": _span(list(group["accuracy"])),
            "share of the steps": _span(list(group["budget_ratio"])),
        }
        for (strategy, calibrator), group in kinds
    )
    return markdown(rows)


def _by_llm(rows: pd.DataFrame, strategy: str, calibrator: str | None = None, metric: str = "accuracy") -> list[str]:
    """Return a metric of a strategy for the weak, the middle and the strong LLM, as text."""
    by_llm = rows_where(rows, strategy=strategy, calibrator=calibrator).set_index("llm")[metric]
    return [f"{by_llm[f'nano-{name}']:.3f}" for name in ("weak", "middle", "strong")]


def _value(shown: str) -> float:
    return float(shown.split()[0])


def _span(values: Sequence[float] | pd.Series, shape: str = ".2f") -> str:
    """Return the range of values, in a format such as ``+.1f``."""
    low, high = (f"{end:{shape}}" for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


PLACES: Mapping[str, Callable[[Figures], str]] = {
    "audit": lambda _: _audit(),
    "audit-start": lambda _: _audit_start(),
    "audit-speed": lambda _: _audit_speed(),
    "caption": lambda _: caption(),
    "calibration-example": _calibration_example,
    "calibrators": _calibrators,
    "claims": claims,
    "default-rule": lambda _: default_rule(),
    "demo": _demo,
    "duration": _duration,
    "findings": _findings,
    "league": _league,
    "league-reading": _league_reading,
    "not-bought": _not_bought,
    "overestimation": lambda figures: markdown(figures.overestimation),
    "real-prms": lambda _: real_table(),
    "readings": lambda _: readings_table(),
    "places": lambda _: places_table(),
    "pool-findings": lambda _: numbered([*pool_findings(), smollm_summary()]),
    "reading": _reading,
    "overestimation-of-the-prm": _overestimation_of_the_prm,
    "scaling-example": _scaling_example,
    "smollm-findings": lambda _: numbered(smollm_findings()),
    "searches": _searches,
    "strategies": _strategies,
    "verification": lambda figures: markdown(figures.verification),
    "world": lambda figures: comparison(figures.world),
}
"""The text of each place, by its name."""
