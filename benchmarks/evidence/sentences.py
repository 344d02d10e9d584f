"""The text at the places that documents mark for figures: tables and sentences.

A sentence that claims more than its numbers say follows an assertion of this claim.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping

import pandas as pd

from benchmarks.evidence.figures import Figures
from benchmarks.evidence.shown import markdown, with_interval
from prmcal.db.metrics import Leaderboard, Metrics
from prmcal.db.text.presentation import LEADERBOARDS
from prmcal.db.text.readable import readable_leaderboard
from prmcal.harness.planning.metrics import built_in_metrics
from prmcal.harness.terminal.size import UNLIMITED
from prmcal.harness.terminal.tables import text_table

__all__ = ["PLACES"]

_WIDTH = 120
_MATH, _AIME, _PRM = "nano-math", "nano-aime", "nano-prm"
_PAPERS, _RAW = "quantile-lora", "uncalibrated"


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
    found = readable_leaderboard(rows, name, Metrics(built_in_metrics()), LEADERBOARDS[name].main_metrics)
    lines = textwrap.dedent(text_table(found.head, found.rows, UNLIMITED).strip("\n")).splitlines()
    return "\n".join(["```text", *(line.rstrip() for line in lines), "```"])


def _duration(figures: Figures) -> str:
    seconds = figures.about["worker_seconds"]
    total, searching = sum(seconds.values()), seconds["search"]
    return _paragraph(
        f"The whole grid (`make nano`) fills {figures.about['cells']} cells in about {total / 120:.0f} minutes on two",
        f"cores, {searching / 120:.0f} of them for beam search.",
    )


def _demo(figures: Figures) -> str:
    """The findings and the ranking, without the legend and the commands below."""
    shown, legend, _ = figures.demo.partition("\n\nRanks compare")
    assert legend, "the legend follows the ranking"
    return f"```text\n{shown}\n```"


def _findings(figures: Figures) -> str:
    """Five sentences. Each follows an assertion of what it claims."""
    rows = figures.ranking.set_index("calibrator")
    best, raw = rows.iloc[0], rows.loc[_RAW]
    assert best.name == _PAPERS and raw["signed_error_low"] > 0, "the paper's calibrator is the best"
    others = rows.drop([_PAPERS, _RAW])
    cut = others["cut"]
    assert best["rank_high"] == 1 and best["cut_low"] > others["cut_high"].max(), "it is clearly the best"
    assert best["ias_to_best_of_n_low"] < 0 < best["ias_to_best_of_n_high"], "IAS loses nothing"
    assert best["ias_to_equal_cost_high"] < 0, "a fixed n of equal cost is better"
    assert (others["ias_to_best_of_n_high"] < 0).all(), "with other calibrators IAS stops too early"
    lost = -100 * others["ias_to_best_of_n"]
    sentences = (
        f"Read as probabilities, the uncalibrated scores are too high by {_ends(raw, 'signed_error')} on average.",
        f"`{_PAPERS}`, the paper's calibrator, lowers the corrected Brier score by {_percents(best, 'cut')}. It is "
        f"the best at {best['lowest']:.0f} of {best['places']:.0f} places. The other calibrators lower the score by "
        f"{cut.min():.0%} (`{cut.idxmin()}`) to {cut.max():.0%} (`{cut.idxmax()}`).",
        f"Best-of-n with IAS and `{_PAPERS}` answers {_percents(best, 'ias_accuracy', 1)} of the questions correctly "
        f"with {_ends(best, 'ias_samples', 1)} of 64 samples. Compared with best-of-64, the accuracy changes by "
        f"{_points(best, 'ias_to_best_of_n')} points.",
        f"A fixed n of the same cost is better by {_points(best, 'ias_to_equal_cost', -1)} points. On average, IAS "
        "saves samples here because it draws fewer of them, and not because it knows where to draw them.",
        f"With the other calibrators, IAS draws {_span(list(others['ias_samples']), 1)} samples and loses "
        f"{lost.min():.0f} to {lost.max():.0f} points of accuracy against best-of-64.",
    )
    return "\n".join(
        textwrap.fill(f"{number}. {sentence}", _WIDTH, subsequent_indent="   ", break_on_hyphens=False)
        for number, sentence in enumerate(sentences, 1)
    )


def _ends(row: pd.Series, name: str, digits: int = 3) -> str:
    return with_interval(row[name], row[f"{name}_low"], row[f"{name}_high"], digits)


def _percents(row: pd.Series, name: str, digits: int = 0) -> str:
    low, high = (f"{100 * row[f'{name}_{end}']:.{digits}f}" for end in ("low", "high"))
    return f"{100 * row[name]:.{digits}f}% [{low}, {high}]"


def _points(row: pd.Series, name: str, sign: int = 1) -> str:
    low, high = sorted(100 * sign * row[f"{name}_{end}"] for end in ("low", "high"))
    return f"{100 * sign * row[name]:.1f} [{low:.1f}, {high:.1f}]"


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
    assert signed[_MATH][-1] < 0 < min(signed[_AIME]), (
        "on nano-math not for the strong one, on nano-aime for all"
    )
    hard = chosen[chosen["data set"] == _AIME]
    drawn = [_value(each) for each in hard["IAS samples, uncalibrated"]]
    needed = [_value(each) for each in hard["samples needed"]]
    text = _paragraph(
        "The PRM was trained on success rates of the strong policy, and on long chains only on whether their steps",
        "are right. On nano-math it overestimates more for the weaker policies, and not for the strong one. On",
        f"nano-aime it overestimates for all three, by {_span(signed[_AIME], 2)}: IAS with its rewards draws",
        f"{_span(drawn, 1)} samples where {_span(needed, 0)} are needed.",
    )
    return f"{markdown(chosen)}\n\n{text}"


def _calibrators(figures: Figures) -> str:
    table = figures.calibration
    groups = [group for _, group in table.groupby(["dataset", "llm", "prm"], sort=False)]
    lowest = [group.loc[group["brier_corrected"].idxmin(), "calibrator"] for group in groups]
    brier = _against(table, "brier_corrected")
    aime = _against(table[table["dataset"] == _AIME], "adaptive_ce_corrected")
    math = _against(table[table["dataset"] == _MATH], "adaptive_ce_corrected")
    return _paragraph(
        "The paper's calibrator, `quantile-lora`, has the lowest Brier score in",
        f"{lowest.count(_PAPERS)} of the {len(groups)} combinations of LLM, PRM and data set. In paired tests it is",
        f"significantly better than the histogram in {brier('histogram')}, than isotonic regression in",
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
    assert min(own) > 0.05, "best-of-64 with nano-prm is clearly above pass@1 everywhere"
    return _paragraph(
        f"With `nano-prm`, best-of-64 is {_span(own, 2)} above pass@1. With its twins the difference is",
        f"{_span(twins, 2)}.",
    )


def _reading(figures: Figures) -> str:
    table, judged = figures.overestimation, figures.verification
    signed = {
        data: {
            prm: [_value(each) for each in rows["signed error"]]
            for prm, rows in table[table["data set"] == data].groupby("PRM")
        }
        for data in (_MATH, _AIME)
    }
    areas = [_value(each) for each in judged[judged["data set"] == _MATH]["AUC within a question"]]
    far = [_value(each) for each in judged[judged["data set"] == _AIME]["AUC within a question"]]
    assert min(areas) > 0.9, "the PRMs tell right from wrong on nano-math"
    assert all(each == sorted(each, reverse=True) for each in signed[_MATH].values()), "more for the weaker"
    hard = [each for values in signed[_AIME].values() for each in values]
    assert min(hard) > 0, "they overestimate all policies on nano-aime"
    drawn = [_value(each) for each in table[table["data set"] == _AIME]["IAS samples, uncalibrated"]]
    passed = [_value(each) for each in table[table["data set"] == _AIME]["pass@1"]]
    return _paragraph(
        f"The AUC within a question is {_span(areas, 2)} on nano-math and {_span(far, 2)} on nano-aime.",
        _best_of_n(figures),
        "On nano-math, all three PRMs overestimate the weaker policies more. On nano-aime they overestimate every",
        f"policy, by {_span(hard, 2)}: uncalibrated IAS draws {_span(drawn, 1)} samples, while {_span(passed, 2)} of",
        "the samples succeed.",
    )


def _strategies(figures: Figures) -> str:
    table = figures.scaling
    math = table[(table["dataset"] == _MATH) & (table["prm"].isna() | (table["prm"] == _PRM))]
    ias, fixed = "best-of-n + IAS", "fixed n of equal cost"
    return _paragraph(
        "On nano-math, for the weak, the middle and the strong policy: majority vote is right on",
        f"{_listed(math, 'majority vote')} of the questions, since wrong answers here seldom agree. Best-of-64 has an",
        f"accuracy of {_listed(math, 'best-of-n')}. IAS with `quantile-lora` has {_listed(math, ias, _PAPERS)} with",
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
    return _paragraph(
        "A beam search asks the PRM after every step. This PRM sees mistakes where they are made, so few beams",
        f"suffice: with 4 x 4 steps a round, the accuracy on nano-math is {_span(list(fixed['accuracy']), 2)}. With",
        f"IAS of K or of M it is {_span(list(adaptive['accuracy']), 2)}, at {_span(ratios[_RAW], 2)} of the steps",
        f"with the uncalibrated reward and at {_span(ratios[_PAPERS], 2)} with `quantile-lora`.",
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


def _span(values: list[float], digits: int) -> str:
    low, high = (f"{each:.{digits}f}" for each in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _paragraph(*lines: str) -> str:
    return textwrap.fill(" ".join(lines), _WIDTH, break_long_words=False, break_on_hyphens=False)


PLACES: Mapping[str, Callable[[Figures], str]] = {
    "best-of-n": _best_of_n,
    "calibration-example": _calibration_example,
    "calibrators": _calibrators,
    "demo": _demo,
    "duration": _duration,
    "findings": _findings,
    "league": _league,
    "overestimation": _overestimation,
    "reading": _reading,
    "overestimation-of-the-prm": _overestimation_of_the_prm,
    "scaling-example": _scaling_example,
    "searches": _searches,
    "strategies": _strategies,
    "verification": _verification,
}
"""The text of each place, by its name."""
