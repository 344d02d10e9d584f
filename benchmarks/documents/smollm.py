"""What a real language model of 135 million parameters shows, for the page "A real language model on a laptop".

    prmcal run smollm --out runs/smollm
    python -m benchmarks.documents.smollm runs/smollm

keeps the figures of the finished run in ``docs/smollm``. `benchmarks.documents` writes the texts.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.tables import keep, kept_in, measured, points, rows_where, signed
from prmcal import open_run
from prmcal.db.overview.query import league, league_frame
from prmcal.db.run_folder import published_path

FOLDER = Path(__file__).parents[2] / "docs" / "smollm"
HEAD, YES_NO, RAW = "smollm2-head", "smollm2-yes-no", "uncalibrated"
BEST, IAS, FIXED, ONE, VOTE = ("best-of-n", "best-of-n + IAS", "fixed n of equal cost", "pass@1", "majority vote")
_METRICS = {"calibration": ("signed_error", "brier_corrected"), "scaling": ("accuracy", "samples")}


def record(directory: Path) -> None:
    """Keep the figures of a finished run of the grid `smollm`."""
    FOLDER.mkdir(exist_ok=True)
    run, source = open_run(directory), published_path(directory)
    boards = {name: run.leaderboard(name) for name in _METRICS}  # type: ignore[arg-type]  # names of leaderboards
    for name, metrics in _METRICS.items():
        values = [f"{metric}{end}" for metric in metrics for end in ("", "_low", "_high")]
        columns = ["prm", "strategy", "calibrator", *values, "questions"]
        keep(boards[name][columns], FOLDER, name)
    keep(league_frame(league(source)), FOLDER, "league")
    keep(pd.DataFrame(_differences(run, boards)), FOLDER, "differences")


def _differences(run: Any, boards: dict[str, pd.DataFrame]) -> list[dict[str, Any]]:
    """Return the paired differences that the texts quote: A minus B, for each PRM."""

    def cell(board: str, prm: str | None, strategy: str | None, calibrator: str | None) -> str:
        rows = rows_where(boards[board], prm=prm, strategy=strategy, calibrator=calibrator)
        return str(rows["cell_id"].item())

    differences = []

    def compare(metric: str, prm: str, a: str, first: str, b: str, second: str) -> None:
        # `compare` gives its second cell minus its first.
        row = run.compare(second, first).table.set_index("metric").loc[metric]
        values = {"difference": row["difference"], "difference_low": row["low"], "difference_high": row["high"]}
        differences.append({"metric": metric, "prm": prm, "a": a, "b": b, **values})

    for prm in (HEAD, YES_NO):
        best = cell("scaling", prm, BEST, None)
        for name in (ONE, VOTE):
            compare("accuracy", prm, BEST, best, name, cell("scaling", None, name, None))
        scaling, calibration = boards["scaling"], boards["calibration"]
        for calibrator in scaling[scaling["strategy"] == FIXED]["calibrator"].unique():
            ias_name, ias_cell = f"{IAS}, {calibrator}", cell("scaling", prm, IAS, calibrator)
            compare("accuracy", prm, ias_name, ias_cell, BEST, best)
            compare("accuracy", prm, ias_name, ias_cell, FIXED, cell("scaling", prm, FIXED, calibrator))
        raw = cell("calibration", prm, None, RAW)
        for calibrator in calibration["calibrator"].unique():
            if calibrator != RAW:
                other = cell("calibration", prm, None, calibrator)
                compare("brier_corrected", prm, calibrator, other, RAW, raw)
    return differences


def _row(table: pd.DataFrame, **values: str | None) -> pd.Series:
    """Return the only row with these values; None is no value."""
    (_, row), *others = rows_where(table, **values).iterrows()
    assert not others
    return row


def _raw() -> dict[str, pd.Series]:
    return {prm: _row(kept_in(FOLDER, "calibration"), prm=prm, calibrator=RAW) for prm in (HEAD, YES_NO)}


def smollm_findings() -> list[str]:
    """Return what holds for SmolLM2 at two settings, each with its interval, its n and where it does not hold."""
    scaling, differences, raw = kept_in(FOLDER, "scaling"), kept_in(FOLDER, "differences"), _raw()
    n = int(raw[HEAD]["questions"])
    single, vote = (_row(scaling, prm=None, strategy=name) for name in (ONE, VOTE))
    best = {prm: _row(scaling, prm=prm, strategy=BEST) for prm in raw}
    to_one = {prm: _row(differences, prm=prm, a=BEST, b=ONE) for prm in raw}
    to_vote = _row(differences, prm=HEAD, a=BEST, b=VOTE)
    brier_rows = differences[differences["metric"] == "brier_corrected"]
    isotonic = {prm: _row(brier_rows, prm=prm, a="isotonic") for prm in raw}
    assert raw[YES_NO]["signed_error_low"] > 0 > raw[HEAD]["signed_error_high"], "too high, and too low"
    assert to_one[HEAD]["difference_low"] > 0 > to_one[YES_NO]["difference_high"], "the head ranks"
    assert to_vote["difference_low"] < 0 < to_vote["difference_high"], "and a vote is no worse"
    assert isotonic[YES_NO]["difference_high"] < 0, "isotonic regression repairs Yes or No"
    assert isotonic[HEAD]["difference_low"] < 0 < isotonic[HEAD]["difference_high"], "and leaves the head as it is"
    return [
        f"Read as probabilities, its own Yes or No is too high by {measured(raw[YES_NO], 'signed_error')}. The scores "
        f"of a value head, which was fitted to the outcomes of other stories, are off by "
        f"{measured(raw[HEAD], 'signed_error')}, so too high in 1 of 2 settings (n = {n}).",
        f"Best-of-16 by the head is right on {measured(best[HEAD], 'accuracy')} of the stories, and one sample on "
        f"{measured(single, 'accuracy')}: {points(to_one[HEAD])} points. By Yes or No it is worse than one sample, "
        f"{points(to_one[YES_NO])}. A majority vote, which needs no PRM, has {measured(vote, 'accuracy')}: the head "
        f"differs by {points(to_vote)} points (n = {n}). So a PRM helps in 1 of 2 settings, and clearly beats a vote "
        "in none.",
        f"Isotonic regression changes the [noise-corrected](../concepts/calibration.md) Brier score of Yes or No by "
        f"{signed(isotonic[YES_NO], 'difference')}, and that of the head by {signed(isotonic[HEAD], 'difference')} "
        f"(n = {n}): it helps in 1 of 2 settings, not where the scores are nearly right.",
    ]


def smollm_summary() -> str:
    """Return the same in a sentence or two."""
    scaling = kept_in(FOLDER, "scaling")
    single, vote = (_row(scaling, prm=None, strategy=name) for name in (ONE, VOTE))
    head = _row(scaling, prm=HEAD, strategy=BEST)
    return (
        f"[SmolLM2-135M](../tutorials/real-model.md) is right on {measured(single, 'accuracy')} of "
        f"{single['questions']} stories, with best-of-16 by a value head on {measured(head, 'accuracy')}, and "
        f"with a vote on {measured(vote, 'accuracy')}."
    )


def smollm_claims() -> dict[str, str]:
    """Return what SmolLM2 says of some claims of the paper, by their names."""
    raw, differences = _raw(), kept_in(FOLDER, "differences")
    n = int(raw[HEAD]["questions"])
    ias = differences[differences["a"].str.startswith(IAS) & (differences["metric"] == "accuracy")]
    to_best, to_fixed = (ias[ias["b"] == name] for name in (BEST, FIXED))
    worst, against = (rows.loc[rows["difference"].idxmin()] for rows in (to_best, to_fixed))
    raw_ias = _row(to_best, prm=HEAD, a=f"{IAS}, {RAW}")
    samples = _row(kept_in(FOLDER, "scaling"), prm=HEAD, strategy=IAS, calibrator=RAW)
    return {
        "too high": f"Yes or No: {measured(raw[YES_NO], 'signed_error')}; a head that was fitted to outcomes: "
        f"{measured(raw[HEAD], 'signed_error')} (n = {n}). Above 0 in 1 of 2 settings.",
        "kept": f"Between {points(worst)} and {points(to_best.loc[to_best['difference'].idxmax()])} points at "
        f"{len(to_best)} pairs of PRM and calibrator; clearly lower at {(to_best['difference_high'] < 0).sum()}. "
        f"Against a fixed n of the same cost at worst {points(against)} (n = {n}).",
        "raw": f"With the head's own scores {points(raw_ias)} points with {measured(samples, 'samples', '.1f')} of 16 "
        f"samples (n = {n}).",
    }


if __name__ == "__main__":
    record(Path(sys.argv[1]))
