"""How the scores of steps are read decides what they are worth, and the choice is judged on other questions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from prmcal.harness.audit.audit import Audit, audit
from prmcal.harness.audit.estimates import OUTER, folds_of
from prmcal.harness.audit.readings import CHOSEN
from prmcal.registry.strategies.aggregation import READINGS, read_steps
from tests.harness.audit import files

QWEN = "qwen2.5-math-prm-7b"


@pytest.fixture(scope="module")
def qwen() -> Audit:
    return audit(f"pool:{QWEN}")


def test_the_finding_about_qwens_prm(qwen: Audit) -> None:
    table = qwen.tables["readings"].set_index("reading")
    # Computed twice with other code: the issue of prmcal that brought these pools.
    expected = {"last": (0.171, 0.180, 0.109), "min": (-0.011, 0.074, 0.072), "product": (-0.038, 0.074, 0.072)}
    for reading, values in expected.items():
        assert table.loc[reading, ["error", "brier", "calibrated"]].tolist() == pytest.approx(values, abs=2e-3)
    assert table.loc[["last", "min"], "auc"].tolist() == pytest.approx([0.72, 0.84], abs=5e-3)
    assert table.loc[CHOSEN, "cut_low"] > 0.05
    assert "Read the smallest step: Brier score 0.180 to 0.074" in str(qwen).replace("\n  ", " ")


def test_a_reading_is_chosen_on_other_questions(qwen: Audit) -> None:
    groups = qwen.prefixes.sort_values("step").groupby(["question", "solution"])
    scores = [own["score"].to_numpy() for _, own in groups]
    label, question = groups["label"].last().to_numpy(), np.array([key[0] for key, _ in groups])
    errors = {name: (read_steps(scores, name) - label) ** 2 for name in READINGS}
    folds, found = folds_of(question, OUTER), np.empty(len(label))
    for fold in range(OUTER):
        best = min(READINGS, key=lambda name: errors[name][folds != fold].mean())
        found[folds == fold] = errors[best][folds == fold]
    assert qwen.readings[-1].brier.value == pytest.approx(found.mean())


def test_labels_of_steps_and_single_scores_have_no_readings() -> None:
    for records in (files.whole_solutions(), files.processbench_with_scores()):
        assert audit(pd.DataFrame(records)).readings == ()
