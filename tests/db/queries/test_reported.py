"""The paper's numbers: all of them, and the right ones in the right places."""

from __future__ import annotations

from typing import Any

import pytest

from prmcal.db.queries.leaderboard import reported

QWEN, SHEPHERD, REASONEVAL = "Qwen2.5-Math-PRM-7B", "Math-Shepherd-Mistral-7B", "ReasonEval-7B"


def test_every_number_of_the_nine_tables_is_there() -> None:
    rows = reported()
    assert rows["table"].value_counts().to_dict() == {
        "cal_qwen": 12 * 10,
        "ats_comparison": 12 * 12,
        "calibration_72b": 12 * 6,
        **{f"{kind}_{prm}": 12 * 6 for kind in ("bon", "bs") for prm in ("qwen", "shepherd", "reasoneval")},
    }
    assert set(rows["status"]) == {"reported"}
    assert not rows.duplicated(["table", "dataset", "llm", "prm", "calibrator", "strategy", "metric"]).any()
    assert rows["llm"].nunique() == 6
    assert rows["value"].between(0, 1.1).all()
    assert set(rows.loc[rows["value"] > 1, "metric"]) == {"budget_ratio"}


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ({"table": "cal_qwen", "dataset": "math500", "llm": "Llama-3.2-1B", "calibrator": "quantile-lora", "metric": "brier"}, 0.0692),
        ({"table": "cal_qwen", "dataset": "aime24-25", "llm": "R1-Qwen-7B", "calibrator": "uncalibrated", "metric": "average_ce"}, 0.3680),
        ({"table": "calibration_72b", "dataset": "math500", "llm": "Qwen-2.5-1.5B", "prm": "Qwen2.5-Math-PRM-72B", "metric": "positive_brier"}, 0.106),
        ({"table": "ats_comparison", "dataset": "aime24-25", "llm": "R1-Llama-8B", "calibrator": "histogram", "metric": "adaptive_ce"}, 0.588),
        ({"table": "bon_qwen", "dataset": "math500", "llm": "Qwen-2.5-7B", "strategy": "best-of-n"}, 0.8540),
        ({"table": "bon_shepherd", "dataset": "math500", "llm": "R1-Llama-8B", "calibrator": "quantile-lora", "metric": "budget_ratio"}, 0.3106),
        ({"table": "bon_reasoneval", "dataset": "aime24-25", "llm": "R1-Qwen-7B", "strategy": "best-of-n"}, 0.0),
        ({"table": "bs_qwen", "dataset": "aime24-25", "llm": "Llama-3.2-1B", "strategy": "beam search + IAS-of-M", "metric": "budget_ratio"}, 1.0619),
        ({"table": "bs_reasoneval", "dataset": "aime24", "llm": "R1-Llama-8B", "strategy": "beam search + IAS-of-K", "metric": "accuracy"}, 0.1),
        ({"table": "bs_shepherd", "dataset": "math100", "llm": "Qwen-2.5-7B", "strategy": "beam search"}, 0.78),
    ],
)  # fmt: skip
def test_numbers_are_where_the_paper_has_them(where: dict[str, str], value: float) -> None:
    (found,) = reported(**where)["value"]
    assert found == value


def test_tables_agree_where_they_say_the_same() -> None:
    keys = ["dataset", "llm", "prm", "calibrator", "metric"]
    calibration = reported(table="cal_qwen").set_index(keys)["value"]
    for table in ("calibration_72b", "ats_comparison"):
        again = reported(table=table).set_index(keys)["value"]
        both = calibration.to_frame("first").join(again.rename("again"), how="inner")
        assert len(both) == 48
        apart: Any = (both["first"] - both["again"]).abs()
        assert apart.max() <= 0.0011
    pass_at_1 = reported(strategy="pass@1", dataset="math500").groupby("llm")["value"].nunique()
    assert set(pass_at_1) == {1}


def test_coordinates_that_do_not_apply_are_empty() -> None:
    assert reported(strategy="pass@1")["prm"].isna().all()
    assert reported(table="cal_qwen")["strategy"].isna().all()
    assert set(reported(table="cal_qwen")["digits"]) == {4}
    assert set(reported(table="ats_comparison")["digits"]) == {3}
    assert set(reported(table="bs_shepherd")["prm"].dropna()) == {SHEPHERD}
    assert set(reported(prm=REASONEVAL)["table"]) == {"bon_reasoneval", "bs_reasoneval"}
    assert len(reported(prm=QWEN)) > 300
