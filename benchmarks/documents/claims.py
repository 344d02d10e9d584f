"""The claims that have been examined, where, and how strongly: for the README and `docs/concepts/claims.md`.

    prmcal run pools --out runs/pools
    python -m benchmarks.documents.claims runs/pools

keeps the figures of the recorded pools in ``docs/pools``: of the rules at all settings, and of the calibrators at those
that have no grid of their own. `benchmarks.documents` writes the texts, with those of `real_prms`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from benchmarks.documents.figures import Figures
from benchmarks.documents.real_prms import QWEN, higher_at_5, real_findings
from benchmarks.documents.smollm import smollm_claims
from benchmarks.tables import keep, kept_in, markdown, measured, paragraph, percents, points, rows_where, signed
from prmcal.db.catalog import leaderboard
from prmcal.db.run_folder import published_path

POOLS = Path(__file__).parents[2] / "docs" / "pools"
_CODE, _RAW, _PAPERS, _SIMPLE = (
    "codegen-16b",
    "uncalibrated",
    "quantile-lora",
    ["temperature", "isotonic", "histogram"],
)
_OTHERS = ("nano-", "smollm2-")
"""The LLMs of pools that have grids of their own, whose figures say more."""
_RULE, _QWENS = "learned stopping", "qwen2.5-math-1.5b"
_KEY = ["dataset", "llm", "prm"]
_ERROR, _BRIER = "signed_error", "brier_corrected"


def record(directory: Path) -> None:
    """Keep the figures of a finished run of the grid `pools`."""
    # It loads half of prmcal, and texts need only the figures.
    from benchmarks.documents.pool_table import compared

    POOLS.mkdir(exist_ok=True)
    rules = pd.DataFrame(
        {
            **{name: getattr(rule, name) for name in ("setting", "rule", "samples", "accuracy", "rival")},
            **rule.difference.columns("difference"),
            "questions": rule.difference.questions,
        }
        for rule in compared(directory)
    )
    table = leaderboard(published_path(directory), "calibration")
    table = table[~table["llm"].str.startswith(_OTHERS)]
    values = [f"{metric}{part}" for metric in (_ERROR, "brier") for part in ("", "_low", "_high")]
    keep(rules, POOLS, "rules")
    keep(table[[*_KEY, "calibrator", *values, "questions"]], POOLS, "calibration")


def _standing(name: str) -> tuple[pd.DataFrame, int, int]:
    """Return the settings of a rule, and at how many of them it is clearly more and clearly less accurate."""
    of_rule = rows_where(kept_in(POOLS, "rules"), rule=name)
    return of_rule, int((of_rule["difference_low"] > 0).sum()), int((of_rule["difference_high"] < 0).sum())


def pool_findings() -> list[str]:
    """Return what holds on the recorded pools, each sentence with its interval, its n and where it does not hold."""
    of_rule, won, lost = _standing(_RULE)
    best = of_rule.loc[of_rule["difference"].idxmax()]
    assert won > lost, "it wins more often than it loses"
    return [
        *real_findings(),
        f"`{_RULE}` was less accurate than the best fixed number of samples of its cost at {lost} of {len(of_rule)} "
        f"settings and more accurate at {won}, by up to {points(best)} points (n = {best['questions']}).",
    ]


def default_rule() -> str:
    """Return what was seen of the default rule, and of ESC, at all settings."""
    (default, counts), (esc, of_esc) = (
        (of_rule, f"{won} wins, {len(of_rule) - won - lost} ties and {lost} losses")
        for of_rule, won, lost in (_standing(_RULE), _standing("ESC"))
    )
    best = default.loc[default["difference"].idxmax()]
    return paragraph(
        f"`{_RULE}` is the default of `prmcal ask`. Against the best fixed n of its cost it has {counts} at "
        f"{len(default)} settings of shipped pools, {100 * default['difference'].mean():+.1f} points on average, at "
        f"best {points(best)} (n = {best['questions']}). `ESC` has {of_esc} at {len(esc)}."
    )


def _held_in(holds: pd.Series) -> str:
    """Return in how many settings something holds."""
    return f"in {int(holds.sum())} of {len(holds)} settings"


def _errors(figures: Figures) -> pd.DataFrame:
    table = figures.calibration
    return table[table["calibrator"] == _RAW].set_index(_KEY)


def nano_settings(figures: Figures) -> dict[str, str]:
    """Return where each finding about nano holds and where not, by its name."""
    errors, table, scaling = _errors(figures), figures.calibration, figures.scaling
    standing = table.pivot(index=_KEY, columns="calibrator", values=f"{_BRIER}_standing")
    good = standing[[_PAPERS, "beta-binomial"]].isin(["best", "tied"]).any(axis=1)
    accuracy = _by_setting(scaling, "accuracy")
    fixed = accuracy["fixed n of equal cost"] >= accuracy["best-of-n + IAS"]
    signed = errors[_ERROR].unstack("llm")
    apart = errors[_ERROR].unstack("dataset")
    briers = table.pivot(index=_KEY, columns="calibrator", values=_BRIER)
    beaten = briers[_PAPERS] < briers[_SIMPLE].min(axis=1)
    sure = standing[_PAPERS].isin(["best", "tied"]) & (standing[_SIMPLE] == "worse").all(axis=1)
    far = table[table["dataset"] == "nano-aime"]
    isotonic = far[far["calibrator"] == "isotonic"]
    return {
        "too high": _held_in(errors["signed_error_low"] > 0),
        "best": _held_in(good),
        "fixed": _held_in(fixed),
        "weaker": _held_in(
            (signed["nano-weak"] > signed["nano-middle"]) & (signed["nano-middle"] > signed["nano-strong"])
        ),
        "harder": _held_in(apart["nano-aime"] > apart["nano-math"]),
        "lora": f"{_held_in(beaten)}, and clearly {_held_in(sure)}",
        "far": _held_in(isotonic["signed_error_low"] > 0),
        "far span": f"{isotonic[_ERROR].min():+.2f} to {isotonic[_ERROR].max():+.2f}",
        "kept": _held_in(accuracy["best-of-n + IAS"] >= accuracy["best-of-n"]),
    }


def _by_setting(scaling: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return a metric of the strategies by setting, with the paper's calibrator where there is one."""
    rows = scaling[scaling["calibrator"].isna() | (scaling["calibrator"] == _PAPERS)]
    rows = rows[rows["prm"].notna()].sort_values("calibrator", na_position="first")
    return rows.pivot_table(index=_KEY, columns="strategy", values=metric, aggfunc="last")


def claims(figures: Figures) -> str:
    """Return the table of the paper's claims: where each was seen, how strongly, and what the rest would need."""
    rows, at = figures.ranking.set_index("calibrator"), nano_settings(figures)
    raw, papers = rows.loc[_RAW], rows.loc[_PAPERS]
    pools = kept_in(POOLS, "calibration").set_index(["llm", "calibrator"])
    code, before, after = (pools.loc[key] for key in ((_CODE, _RAW), (_QWENS, _RAW), (_QWENS, "isotonic")))
    real_prms = kept_in(POOLS, "readings")
    last = real_prms[real_prms["reading"] == "last"].set_index("pool")
    large, small = (last.loc[f"rlhflow-8b-llama-3.{version}"] for version in ("1-8b", "2-3b"))
    assert large["error_low"] < small["error"] < large["error_high"], "no difference is seen"
    searches = _by_setting(figures.scaling, "accuracy").dropna(subset=["beam search"])
    spent = _by_setting(figures.scaling, "budget_ratio").dropna(subset=["beam search"])
    adaptive, real = "beam search + IAS-of-M", smollm_claims()
    big = "`prmcal run math500-small` on a GPU"
    lines = [
        (
            "PRMs overestimate the chance of a right answer.",
            f"Above 0 by the last step in {(last['error_low'] > 0).sum()} of {len(last)} pools of PRMs, by "
            f"{last['error'].min():+.3f} to {last['error'].max():+.3f} (n = 500 each). {_CODE}: "
            f"{measured(code, _ERROR)} (n = {code['questions']}).",
            real["too high"],
            f"{measured(raw, _ERROR)} (n = 100 and 60); above 0 {at['too high']}.",
            "More PRMs, and success rates: `prmcal run math500-prms` on a GPU.",
        ),
        (
            "More so for weaker LLMs.",
            f"One PRM with two LLMs: {signed(large)} where {large['accuracy']:.3f} are right, {signed(small)} where "
            f"{small['accuracy']:.3f} are. No difference is seen.",
            "Not possible with one LLM.",
            f"Weak above middle above strong {at['weaker']}.",
            "`prmcal run paper` on GPUs.",
        ),
        (
            "More so for harder questions.",
            f"Clearly at level 5 above level 1 in {higher_at_5()} of {len(last)} pools of PRMs. A score that knows "
            "nothing does this too.",
            "Not measured.",
            f"nano-aime above nano-math {at['harder']}.",
            "`prmcal run paper` on GPUs.",
        ),
        (
            "Quantile regression with LoRA corrects better than temperature, isotonic regression and histograms.",
            f"Not possible: no hidden states. Isotonic regression takes the Brier score of all prefixes of {QWEN} from "
            f"{measured(before, 'brier')} to {measured(after, 'brier')} (n = {before['questions']}).",
            "A fit to 80 solutions [changed little](../reference/measured-on-a-gpu.md#smollm).",
            f"A Brier reduction of {percents(papers, 'brier_reduction')} (n = 100 and 60); lower than all three "
            f"{at['lora']}. "
            "`beta-binomial`, which is no part of the paper, is not worse.",
            "`prmcal run published`: about four hours of an H100.",
        ),
        (
            "Simple calibrators fail out of distribution.",
            "Not possible: all questions are of one kind.",
            "Not possible, for the same reason.",
            f"After isotonic regression on nano-math, the error on nano-aime is {at['far span']}; above 0 {at['far']} "
            "(n = 60).",
            "`prmcal run published`.",
        ),
        (
            "IAS keeps the accuracy of best-of-n with fewer samples.",
            "Not possible: no score of the bare question.",
            real["kept"],
            f"{points(papers, 'ias_to_best_of_n')} points at {measured(papers, 'ias_samples', '.1f')} of 64 samples; "
            f"not lower {at['kept']}. But {points(papers, 'ias_to_equal_cost')} points against a fixed n of the same "
            f"cost, which is not worse {at['fixed']} (n = 100 and 60).",
            f"{big}.",
        ),
        (
            "IAS with uncalibrated scores spends too little and loses accuracy.",
            "Not possible, for the same reason.",
            real["raw"],
            f"{points(raw, 'ias_to_best_of_n')} points against best-of-64 with {measured(raw, 'ias_samples', '.1f')} "
            "samples (n = 100 and 60).",
            "As above.",
        ),
        (
            "IAS saves steps in beam search.",
            "Not possible: a search samples anew.",
            "Not run.",
            f"IAS of M with `{_PAPERS}` takes {spent[adaptive].min():.2f} to {spent[adaptive].max():.2f} of the steps; "
            f"its accuracy is not lower {_held_in(searches[adaptive] >= searches['beam search'])} (n = 100 and 60).",
            "`prmcal run paper` on GPUs.",
        ),
        (
            "A PRM of 72B overestimates too, and a calibrated one of 7B is better.",
            "Not seen.",
            "Not possible.",
            "Not possible.",
            "Four GPUs of 80 GB and `prmcal run published` with the 72B PRM.",
        ),
    ]
    return markdown(
        pd.DataFrame(lines, columns=["claim", "recorded pools", "SmolLM2-135M", "nano", "what the rest would need"])
    )


if __name__ == "__main__":
    record(Path(sys.argv[1]))
