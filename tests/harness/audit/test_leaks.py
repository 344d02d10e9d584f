"""What is chosen or fitted is judged on other questions: a model that only memorises gains nothing, however it is used.

Each test takes a competitor that knows its questions by heart, or many that differ by luck alone. A choice or a fit
that sees the questions on which it is judged makes them look good.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from prmcal.arrays import Bools, Floats, Floats32
from prmcal.db.metrics import SETTING
from prmcal.db.overview.ranking import fixed_rivals
from prmcal.harness.audit import estimates
from prmcal.harness.audit.scored import rows_of
from prmcal.harness.audit.training import Labelled, fit_value_head
from prmcal.registry.reading.fields import Fields

QUESTIONS = 200
LUCKY = tuple(f"lucky-{number}" for number in range(100))
"""Calibrators that say 0 or 1 for each question by lot."""


def scored_coins(seed: int = 0) -> Any:
    """One solution for each question, whose success is a coin, with a score of its own that says nothing."""
    random = np.random.default_rng(seed)
    scores = random.permutation(np.linspace(0.2, 0.8, QUESTIONS))
    solutions: list[Any] = [
        {"question": f"q{number}", "steps": ["a step"], "score": [None, float(score)], "label": float(coin)}
        for number, (score, coin) in enumerate(zip(scores, random.integers(0, 2, QUESTIONS), strict=True))
    ]
    return rows_of(solutions, "coins.jsonl", Fields(scale="probability"), [])


def remember(name: str, rows: estimates.Rows, chosen: Bools | slice = slice(None)) -> Any:
    """Fit a calibrator that knows the labels of its rows by their rewards, which are all different."""
    return dict(zip(rows.reward[chosen], rows.label[chosen], strict=True))


def recall(labels: Any, rows: estimates.Rows, chosen: Bools | slice = slice(None)) -> Floats:
    """Predict the label of a row of the fit, and one half for others."""
    return np.array([labels.get(reward, 0.5) for reward in rows.reward[chosen]])


def test_a_calibrator_of_an_audit_is_judged_on_questions_that_it_has_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates, "CALIBRATORS", ("memory",))
    monkeypatch.setattr(estimates, "fit_calibrator", remember)
    monkeypatch.setattr(estimates, "calibrated_rewards", recall)
    measured = estimates.measure(scored_coins())
    rows = estimates.Rows(scored_coins().prefixes)
    chance = float(((rows.reward - rows.label) ** 2).mean()) - 0.25
    assert measured.gains["memory"].value == pytest.approx(chance)
    assert measured.gain.value == pytest.approx(chance)


def test_the_best_calibrator_of_an_audit_is_judged_on_questions_that_have_not_chosen_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    says = {name: np.random.default_rng(seed).integers(0, 2, QUESTIONS) for seed, name in enumerate(LUCKY)}
    monkeypatch.setattr(estimates, "CALIBRATORS", LUCKY)
    monkeypatch.setattr(estimates, "fit_calibrator", lambda name, rows, chosen=slice(None): says[name])
    monkeypatch.setattr(
        estimates,
        "calibrated_rewards",
        lambda said, rows, chosen=slice(None): said[rows.question[chosen]].astype(float),
    )
    coins = scored_coins()
    # Scores that are always wrong, so that each of the lucky ones is better.
    coins.prefixes["reward"] = 1.0 - coins.prefixes["label"]
    gain = estimates.measure(coins).gain
    by_luck = max(1 - np.mean((said - coins.prefixes["label"]) ** 2) for said in says.values())
    assert by_luck > 0.57
    assert gain.value == pytest.approx(0.5, abs=0.05)
    assert gain.low < 0.5 < gain.high


def test_the_best_fixed_setting_is_chosen_on_other_questions() -> None:
    """For the league, 100 settings that differ by luck alone are right on half of the questions."""
    random = np.random.default_rng(0)
    table = random.integers(0, 2, (100, QUESTIONS)).astype(np.float64)
    assert table.mean(axis=1).max() > 0.57
    frame = pd.DataFrame(table).melt(ignore_index=False, var_name="question_id").reset_index(names="entry")
    place = dict.fromkeys(SETTING, "one")
    one = pd.DataFrame(columns=[*SETTING, "question_id", "accuracy"]).astype({"accuracy": float})
    (rivals,) = fixed_rivals(frame.assign(**place, budget=1), range(100), one)
    assert rivals.rivals[1].mean() == pytest.approx(0.5, abs=0.07)


def test_a_head_is_judged_on_questions_that_it_has_not_learned_from() -> None:
    """States wider than the prefixes are many let it learn coins by heart: its AUC on its own questions is .94."""
    count = 120
    random = np.random.default_rng(6)  # With most seeds, the fit sees at once that nothing can be learned.
    solutions: list[Any] = [
        {"question": f"q{number // 4}", "asked": "", "steps": ["a step"], "label": coin, "rates": []}
        for number, coin in enumerate(random.integers(0, 2, count).astype(float))
    ]

    def states(request: Any) -> list[Floats32]:
        return [random.normal(size=(2, 160)).astype(np.float32) for _ in request.trajectories]

    prm: Any = SimpleNamespace(states=states)
    head = fit_value_head(Labelled("coins", solutions, []), prm)
    assert np.abs(head.weight).sum() > 1, "it has learned something"
    area = head.figures["AUC within questions, whole solutions"]
    assert area.low < 0.5 < area.high
    assert "The AUC within questions is" in head.refusal
