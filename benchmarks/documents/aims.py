"""What the nano models aim at, whether they meet it, and what recorded models have, for their model card."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from benchmarks.tables import markdown

_POLICIES = ["nano-weak", "nano-middle", "nano-strong"]


class Aim(NamedTuple):
    """One statistic of the nano models: its name, the aim, that of recorded models, that of nano, whether it is met."""

    name: str
    aim: str
    recorded: str
    measured: str
    met: bool


def aims(table: pd.DataFrame) -> list[Aim]:
    """Return the aims, from what :func:`benchmarks.documents.nano.world` returns."""
    math, aime = (table[table["dataset"] == name] for name in ("nano-math", "nano-aime"))
    llms, far = (rows.drop_duplicates("llm").set_index("llm").loc[_POLICIES] for rows in (math, aime))
    passed = llms["pass_at_1"]
    ranges = zip(passed, ((0.3, 0.45), (0.5, 0.6), (0.75, 0.85)), strict=True)
    reduction, far_reduction = (
        1 - float(rows["isotonic_brier"].mean() / rows["brier"].mean()) for rows in (math, aime)
    )
    less = 1 - aime["isotonic_brier"] / aime["brier"] < reduction
    worse = less | (aime["isotonic_adaptive_ce"] > aime["adaptive_ce"])
    best = math.pivot(index="prm", columns="llm", values="optimum").loc[list(dict.fromkeys(math["prm"])), _POLICIES]
    return [
        Aim(
            "pass@1 on nano-math: weak, middle, strong",
            ".30 to .45, .50 to .60, .75 to .85; lower on nano-aime",
            "",
            ", ".join(f"{share:.2f}" for share in passed),
            all(low <= share <= high for share, (low, high) in ranges) and bool((far["pass_at_1"] < passed).all()),
        ),
        Aim(
            "AUC of the last score within a question, on nano-math",
            ".70 to .92",
            ".68 (ReasonEval-7B), .88 (Shepherd, ReasonEval-34B), .90 (Qwen ORM)",
            f"{math['auc'].min():.3f} to {math['auc'].max():.3f}",
            bool(math["auc"].between(0.70, 0.92).all()),
        ),
        Aim(
            "theta, on nano-math",
            "below 4",
            "3.8, .33, .94",
            f"{llms['theta'].min():.2f} to {llms['theta'].max():.2f}",
            bool((llms["theta"] < 4).all()),
        ),
        Aim(
            "questions of nano-math that are never right",
            "15% to 40% for some policy",
            "42%, 8%, 4%",
            ", ".join(f"{share:.0%}" for share in llms["never"]),
            bool(llms["never"].between(0.15, 0.40).any()),
        ),
        Aim(
            "questions of nano-math that are always right",
            "5% to 20% for some policy",
            "18%, 45%, 86%",
            ", ".join(f"{share:.0%}" for share in llms["always"]),
            bool(llms["always"].between(0.05, 0.20).any()),
        ),
        Aim(
            "Brier reduction by isotonic regression, on nano-math",
            "15% to 45%",
            "23% (MATH)",
            f"{reduction:.0%}",
            0.15 <= reduction <= 0.45,
        ),
        Aim(
            "the same on nano-aime, out of distribution",
            "less, or AdaptiveCE worse, in most settings",
            "8% (AIME); AdaptiveCE worse in 10 of 12 rows",
            f"{far_reduction:.0%}; so in {worse.sum()} of {len(worse)} settings",
            bool(worse.mean() > 0.5),
        ),
        Aim(
            "the n at which best-of-n is most accurate, on nano-math: weak, middle, strong",
            "for an LLM, below 64 with one PRM and 64 with another",
            "",
            "; ".join(
                f"{prm.removeprefix('nano-')} {', '.join(map(str, counts))}" for prm, *counts in best.itertuples()
            ),
            bool(((best == math["n"].max()).any() & (best < math["n"].max()).any()).any()),
        ),
    ]


def comparison(table: pd.DataFrame) -> str:
    """Return the table of the model card: each statistic with its aim and those of other models, in Markdown."""
    rows = pd.DataFrame(aims(table)).rename(columns={"name": "statistic", "recorded": "recorded or published"})
    rows["nano models"] = rows["measured"].where(rows["met"], rows["measured"] + " (missed)")
    return markdown(rows[["statistic", "aim", "nano models", "recorded or published"]])
