"""The text at the places that documents mark for figures: tables and sentences.

A sentence that claims more than its numbers say follows an assertion of this claim.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from benchmarks.documents.claims import claims, nano_places, pool_findings
from benchmarks.documents.figures import FIGURES, Figures
from benchmarks.documents.shown import markdown, measured, numbered, paragraph, with_interval
from benchmarks.documents.smollm import smollm_findings, smollm_summary
from benchmarks.evidence.world import comparison
from prmcal.db.metrics import Leaderboard, Metrics
from prmcal.db.text.board import leaderboard_board
from prmcal.db.text.formats import LEADERBOARDS
from prmcal.harness.audit.audit import audit
from prmcal.harness.audit.verdict import verdict
from prmcal.harness.planning.resolved import built_in_metrics
from prmcal.harness.terminal import UNLIMITED, text_table

_ROOT = Path(__file__).parents[2]
_NARROW = 100
_SHOWN = 1
"""The calibrators of the demo that the README shows, without the others."""
_MATH, _AIME, _PRM = "nano-math", "nano-aime", "nano-prm"
_PAPERS, _RAW, _RIVAL = "quantile-lora", "uncalibrated", "beta-binomial"
_MANY = (_PAPERS, _RIVAL, "ensemble", "monotone-quantile")
"""The calibrators that read more of the PRM than its score, without `ats`, which only changes the temperature."""
_ANSWERS_ONLY = ("adaptive consistency", "ESC")
"""The rules that stop by the answers alone."""
_BY_SCORES = "first good enough"
"""The rule that stops by the scores of the samples in hand."""


def _calibration_example(figures: Figures) -> str:
    table = figures.calibration
    chosen = table[(table["llm"] == "nano-weak") & (table["prm"] == _PRM)]
    return _printed(chosen, "calibration")


def _scaling_example(figures: Figures) -> str:
    table = figures.scaling
    chosen = table[(table["llm"] == "nano-middle") & (table["dataset"] == _MATH)]
    chosen = chosen[chosen["prm"].isna() | (chosen["prm"] == _PRM)]
    shown = [_RAW, "temperature", "isotonic", "beta-binomial", _PAPERS]
    return _printed(chosen[chosen["calibrator"].isna() | chosen["calibrator"].isin(shown)], "scaling")


def _printed(rows: pd.DataFrame, name: Leaderboard) -> str:
    found = leaderboard_board(
        rows.assign(cell_id=""), name, Metrics(built_in_metrics()), LEADERBOARDS[name].main_metrics
    )
    lines = textwrap.dedent(text_table(found.head, found.rows, UNLIMITED).strip("\n")).splitlines()
    return "\n".join(["```text", *(line.rstrip() for line in lines), "```"])


def _audit() -> str:
    found = audit(_ROOT / "grids" / "scored.jsonl")
    text = verdict(found.scored, found.measured, found.choices, _NARROW)
    _, _, shown = text.partition("\n\n")
    shown, curve, _ = shown.partition("\nCut of the Brier score")
    assert curve, "the learning curve follows the verdict"
    left = (
        "(and how the file was read, and what votes, best-of-n, IAS and a rule that stops early would give)"
    )
    return f"```text\n{shown}\n{left}\n```"


def _audit_speed() -> str:
    small, large = pd.read_csv(FIGURES / "audit-speed.csv").to_dict("records")
    assert small["cpu_seconds"] < 20, "a small file takes seconds"
    assert large["cpu_seconds"] < 120 and large["gigabytes"] < 4, "a large file fits a laptop"
    return paragraph(
        f"A file with {small['prefixes']:,} scored prefixes takes {small['cpu_seconds']:.0f} seconds of processor time",
        f"and {small['gigabytes']:.1f} GB of memory, and one with {large['prefixes']:,}",
        f"({large['megabytes_of_file']:.0f} MB) {large['cpu_seconds']:.0f} seconds and {large['gigabytes']:.1f} GB.",
        "(`python -m benchmarks.analysis.audit_speed`)",
    )


def _duration(figures: Figures) -> str:
    seconds = figures.about["worker_seconds"]
    total, searching = sum(seconds.values()), seconds["search"]
    return paragraph(
        f"The whole grid (`make nano`) fills {figures.about['cells']} cells in about {total / 120:.0f} minutes on two",
        f"cores, {searching / 120:.0f} of them for beam search.",
    )


def _demo(figures: Figures) -> str:
    """The findings and the best calibrators, without the others, the legend and the commands below."""
    shown, legend, _ = figures.demo.partition("\n\nRanks compare")
    assert legend, "the legend follows the ranking"
    findings, _, ranking = shown.rpartition("\n\n")
    rows = ranking.splitlines()
    head = 2
    left = len(rows) - head - _SHOWN
    kept = [*rows[: head + _SHOWN], f"(and {left} more)"] if left > 0 else rows
    return "\n".join(["```text", findings, "", *kept, "```"])


def _findings(figures: Figures) -> str:
    """Four findings. Their words follow the figures; what they take for granted is asserted."""
    rows = figures.ranking.set_index("calibrator")
    raw, papers = rows.loc[_RAW], rows.loc[_PAPERS]
    assert raw["signed_error_low"] > 0, "uncalibrated scores are too high"
    best = rows[rows["rank_low"] == 1].sort_values("cut", ascending=False)
    single = rows.drop([*_MANY, _RAW, "ats"])
    cuts = _and([f"`{name}` by {_percents(row, 'cut')}" for name, row in best.iterrows()])
    lead = f"The best calibrator lowers the corrected Brier score: {cuts}."
    if len(best) > 1:
        lead = f"No test tells the {len(best)} best calibrators apart. They lower the corrected Brier "
        lead += f"score: {cuts}."
    also = "" if _PAPERS in best.index else f" The paper's `{_PAPERS}` cuts {_percents(papers, 'cut')}."
    league = figures.league
    first = league.iloc[0]
    known = league[league["strategy"] == "first good enough"].iloc[0]
    ias = league[(league["strategy"] == "best-of-n + IAS") & (league["calibrator"] == _PAPERS)].iloc[0]
    votes = 100 * league[league["strategy"].isin(_ANSWERS_ONLY)]["area_gain"]
    at = nano_places(figures)
    gains = "At equal cost, no rule surely gains over a fixed n"
    if first["area_gain_low"] > 0:
        gains = "At equal cost, some rules gain over a fixed n"
    sentences = (
        f"Read as probabilities, raw scores are too high by {measured(raw, 'signed_error')} on average, "
        f"{at['too high']}.",
        f"{lead}{also} Calibrators that read only the score cut at most {single['cut'].max():.0%}. `{_PAPERS}` or "
        f"`{_RIVAL}` is the best, or tied with it, {at['best']}.",
        f"Best-of-n with IAS and `{_PAPERS}` answers {_percents(papers, 'ias_accuracy', 1)} of the questions correctly "
        f"with {measured(papers, 'ias_samples', 1)} of 64 samples. Compared with best-of-64, the accuracy differs by "
        f"{_points(papers, 'ias_to_best_of_n')} points, and compared with a fixed n of the same cost by "
        f"{_points(papers, 'ias_to_equal_cost')}; the fixed n is not worse {at['fixed']}.",
        f"{gains} ([league](docs/how-to/league.md)): {_entry(first)} differs by {_points(first, 'area_gain')} points, "
        f"`first good enough` by {_points(known, 'area_gain')}, IAS with `{_PAPERS}` by {_points(ias, 'area_gain')}, "
        f"and rules that see only answers by {votes.min():.1f} to {votes.max():.1f}. No rule was changed after this "
        "run.",
    )
    return numbered(sentences)


def _entry(row: pd.Series) -> str:
    """Return the name of an entry of the league."""
    with_one = "" if pd.isna(row["calibrator"]) else f" with `{row['calibrator']}`"
    return f"`{row['strategy']}`{with_one}"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _percents(row: pd.Series, name: str, digits: int = 0) -> str:
    low, high = (f"{100 * row[f'{name}_{end}']:.{digits}f}" for end in ("low", "high"))
    return f"{100 * row[name]:.{digits}f}% [{low}, {high}]"


def _points(row: pd.Series, name: str) -> str:
    value, low, high = (100 * row[f"{name}{end}"] for end in ("", "_low", "_high"))
    return with_interval(value, low, high, 1)


def _league(figures: Figures) -> str:
    """The table of the entries, best first: of each strategy the best one, and that of the paper's calibrator."""
    table = figures.league
    first = ~table["strategy"].duplicated()
    chosen = table[first | (table["calibrator"] == _PAPERS)]
    rows = pd.DataFrame(
        {
            "rank": [
                "-" if pd.isna(low) else f"{low:.0f}" if low == high else f"{low:.0f}-{high:.0f}"
                for low, high in zip(chosen["rank_low"], chosen["rank_high"], strict=True)
            ],
            "strategy": chosen["strategy"],
            "calibrator": chosen["calibrator"].fillna(""),
            "gain over a fixed n (points)": [_points(row, "area_gain") for _, row in chosen.iterrows()],
            "with 4 samples": [_percents(row, "accuracy_at_4", 1) for _, row in chosen.iterrows()],
            "with 16 samples": [_percents(row, "accuracy_at_16", 1) for _, row in chosen.iterrows()],
            "saving at 95%": [_percents(row, "saving_95") for _, row in chosen.iterrows()],
            "wins-ties-losses": [
                "" if pd.isna(row["rank"]) else f"{row['wins']}-{row['ties']}-{row['losses']}"
                for _, row in chosen.iterrows()
            ],
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
    return paragraph(
        f"{_entry(first)} {ahead} the other {others} entries: it changes the accuracy of a fixed n by",
        f"{_points(first, 'area_gain')} points and saves {_percents(first, 'saving_95')} of the samples at 95% of the",
        f"accuracy of best-of-64. `{_BY_SCORES}`, which looks at the scores of the samples in hand, changes it by",
        f"{_points(best.loc[_BY_SCORES], 'area_gain')} points. IAS from the bare question alone changes it by",
        f"{_span(ias, '+.1f')} points, by the calibrator. Rules that look at answers only change it by",
        f"{_span(votes, '+.1f')} points. The random orders leave a standard",
        f"error of at most {100 * figures.league['order_error'].max():.2f} points.",
    )


def _overestimation_of_the_prm(figures: Figures) -> str:
    table = figures.overestimation
    chosen = table[table["PRM"] == _PRM]
    signed = {
        data: [_value(each) for each in chosen[chosen["data set"] == data]["signed error"]]
        for data in (_MATH, _AIME)
    }
    assert signed[_MATH] == sorted(signed[_MATH], reverse=True), (
        "it overestimates more for the weaker policies"
    )
    hard = chosen[chosen["data set"] == _AIME]
    drawn = [_value(each) for each in hard["IAS samples, uncalibrated"]]
    needed = [_value(each) for each in hard["samples needed"]]
    text = paragraph(
        "The PRM was trained on success rates of the strong policy, and on long chains only on whether their steps",
        f"are right. On nano-math it overestimates more for the weaker policies: by {_listing(signed[_MATH])} for the",
        f"weak, the middle and the strong one. On nano-aime the signed errors are {_listing(signed[_AIME])}: IAS with",
        f"its rewards draws {_span(drawn, '.1f')} samples where {_span(needed, '.0f')} are needed.",
    )
    return f"{markdown(chosen)}\n\n{text}"


def _listing(values: Sequence[float]) -> str:
    return _and([f"{each:.2f}" for each in values])


def _calibrators(figures: Figures) -> str:
    table = figures.calibration
    groups = [group for _, group in table.groupby(["dataset", "llm", "prm"], sort=False)]
    lowest = [group.loc[group["brier_corrected"].idxmin(), "calibrator"] for group in groups]
    brier = _against(table, "brier_corrected")
    aime = _against(table[table["dataset"] == _AIME], "adaptive_ce_corrected")
    math = _against(table[table["dataset"] == _MATH], "adaptive_ce_corrected")
    return paragraph(
        "The paper's calibrator, `quantile-lora`, has the lowest Brier score in",
        f"{lowest.count(_PAPERS)} of the {len(groups)} combinations of LLM, PRM and data set, and `beta-binomial` in",
        f"{lowest.count(_RIVAL)}. In paired tests `quantile-lora` is significantly better than `beta-binomial` in",
        f"{brier(_RIVAL)}, than the histogram in {brier('histogram')}, than isotonic regression in",
        f"{brier('isotonic')} and than `ats` in {brier('ats')}. On nano-aime, its adaptive calibration error is",
        f"significantly lower than that of isotonic regression in {aime('isotonic')}, than that of the histogram in",
        f"{aime('histogram')} and than that of `ats` in {aime('ats')}. On nano-math it is significantly lower than",
        f"that of isotonic regression in {math('isotonic')} and than that of the histogram in {math('histogram')}.",
        "The run has one seed and is of one machine: processors differ in the last bits of a sum, so on another",
        "machine fits by gradient descent, and what follows from them, can differ in the third digit.",
    )


def _against(table: pd.DataFrame, metric: str) -> Callable[[str], str]:
    """Return what tells in how many groups quantile-lora is significantly better, and worse, than a calibrator."""

    def told(other: str) -> str:
        better = worse = groups = 0
        for _, group in table.groupby(["dataset", "llm", "prm"]):
            rows = group.set_index("calibrator")
            own, its = rows.loc[_PAPERS], rows.loc[other]
            groups += 1
            if not set(str(own[f"{metric}_letters"])) & set(str(its[f"{metric}_letters"])):
                better += abs(own[metric]) < abs(its[metric])
                worse += abs(own[metric]) > abs(its[metric])
        return f"{better} of {groups}" + (f" (worse in {worse})" if worse else "")

    return told


def _verification(figures: Figures) -> str:
    return markdown(figures.verification)


def _overestimation(figures: Figures) -> str:
    return markdown(figures.overestimation)


def _best_of_n(figures: Figures) -> str:
    table = figures.verification
    gaps = {
        (row[0], row[1], row[2]): _value(row[4]) - _value(row[3])
        for row in table[["data set", "LLM", "PRM", "pass@1", "best-of-N"]].to_numpy()
    }
    own = [gap for (_, _, prm), gap in gaps.items() if prm == _PRM]
    twins = [gap for (_, _, prm), gap in gaps.items() if prm != _PRM]
    return paragraph(
        f"With `nano-prm`, best-of-64 differs from pass@1 by {_span(own, '+.2f')}, and with the other PRMs by",
        f"{_span(twins, '+.2f')}.",
    )


def _reading(figures: Figures) -> str:
    table, judged = figures.overestimation, figures.verification
    signed = table.assign(error=table["signed error"].map(_value)).groupby(["data set", "PRM"])["error"]
    ordered = signed.apply(lambda each: list(each) == sorted(each, reverse=True))
    areas = [_value(each) for each in judged[judged["data set"] == _MATH]["AUC within a question"]]
    far = [_value(each) for each in judged[judged["data set"] == _AIME]["AUC within a question"]]
    hard = table[table["data set"] == _AIME]
    drawn, passed = (
        [_value(each) for each in hard[name]] for name in ("IAS samples, uncalibrated", "pass@1")
    )
    return paragraph(
        f"The AUC within a question is {_span(areas)} on nano-math and {_span(far)} on nano-aime.",
        _best_of_n(figures),
        f"On nano-math, {ordered[_MATH].sum()} of the {len(ordered[_MATH])} PRMs overestimate more for each weaker",
        f"policy. On nano-aime the signed errors are {_span(list(hard['signed error'].map(_value)), '+.2f')}:",
        f"uncalibrated IAS draws {_span(drawn, '.1f')} samples, while {_span(passed)} of the samples succeed.",
    )


def _strategies(figures: Figures) -> str:
    table = figures.scaling
    math = table[(table["dataset"] == _MATH) & (table["prm"].isna() | (table["prm"] == _PRM))]
    ias, fixed = "best-of-n + IAS", "fixed n of equal cost"
    return paragraph(
        "On nano-math, for the weak, the middle and the strong policy: majority vote is right on",
        f"{_listed(math, 'majority vote')} of the questions. Best-of-64 has an accuracy of",
        f"{_listed(math, 'best-of-n')}. IAS with `quantile-lora` has {_listed(math, ias, _PAPERS)} with",
        f"{_listed(math, ias, _PAPERS, 'budget_ratio')} of the samples, and a fixed n of the same cost has",
        f"{_listed(math, fixed, _PAPERS)}. IAS with the uncalibrated reward has {_listed(math, ias, _RAW)} with",
        f"{_listed(math, ias, _RAW, 'budget_ratio')} of the samples.",
    )


def _searches(figures: Figures) -> str:
    table = figures.scaling
    searches = table[(table["dataset"] == _MATH) & table["strategy"].str.startswith("beam search")]
    fixed = searches[searches["strategy"] == "beam search"]
    adaptive = searches[searches["strategy"] != "beam search"]
    ratios = {name: list(rows["budget_ratio"]) for name, rows in adaptive.groupby("calibrator")}
    return paragraph(
        "A beam search asks the PRM after every step. With 4 x 4 steps a round, its accuracy on nano-math is",
        f"{_span(list(fixed['accuracy']))}. With",
        f"IAS of K or of M it is {_span(list(adaptive['accuracy']))}, at {_span(ratios[_RAW])} of the steps",
        f"with the uncalibrated reward and at {_span(ratios[_PAPERS])} with `quantile-lora`.",
    )


def _listed(
    rows: pd.DataFrame, strategy: str, calibrator: str | None = None, metric: str = "accuracy"
) -> str:
    chosen = rows[rows["strategy"] == strategy]
    chosen = chosen[chosen["calibrator"].isna() if calibrator is None else chosen["calibrator"] == calibrator]
    by_llm = chosen.set_index("llm")[metric]
    values = [f"{by_llm[f'nano-{each}']:.3f}" for each in ("weak", "middle", "strong")]
    return f"{values[0]}, {values[1]} and {values[2]}"


def _value(shown: str) -> float:
    return float(shown.split()[0])


def _span(values: Sequence[float] | pd.Series, shape: str = ".2f") -> str:
    """Return the range of values, in a format such as ``+.1f``."""
    low, high = (f"{each:{shape}}" for each in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


PLACES: Mapping[str, Callable[[Figures], str]] = {
    "audit": lambda _: _audit(),
    "audit-speed": lambda _: _audit_speed(),
    "best-of-n": _best_of_n,
    "calibration-example": _calibration_example,
    "calibrators": _calibrators,
    "claims": claims,
    "demo": _demo,
    "duration": _duration,
    "findings": _findings,
    "league": _league,
    "league-reading": _league_reading,
    "overestimation": _overestimation,
    "pool-findings": lambda _: numbered([*pool_findings(), smollm_summary()]),
    "reading": _reading,
    "overestimation-of-the-prm": _overestimation_of_the_prm,
    "scaling-example": _scaling_example,
    "smollm-findings": lambda _: numbered(smollm_findings()),
    "searches": _searches,
    "strategies": _strategies,
    "verification": _verification,
    "world": lambda figures: comparison(figures.world),
}
"""The text of each place, by its name."""
