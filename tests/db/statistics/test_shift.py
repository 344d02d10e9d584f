"""The alarm is raised soon when questions change, and seldom when they do not."""

from __future__ import annotations

import numpy as np
import pytest

from prmcal.arrays import Floats
from prmcal.db.statistics.shift import FALSE_ALARMS, ShiftAlarm, ShiftTest

NAMES = ("length", "reward", "outcome")


def alarm_after(known: Floats, new: Floats) -> ShiftAlarm:
    """An alarm of three values, of shape (questions, 3), that has seen new questions."""
    alarm = ShiftAlarm({name: known[:, column] for column, name in enumerate(NAMES)})
    for row in new:
        alarm.add(dict(zip(NAMES, row.tolist(), strict=True)))
    return alarm


def test_false_alarms_are_seldom_however_many_questions_come() -> None:
    random = np.random.default_rng(0)
    raised = 0
    for _ in range(60):
        # Few different values, so that ties must be broken, and values that depend on each other.
        values = random.integers(0, 4, (340, 1)) + np.zeros((1, 3))
        raised += bool(alarm_after(values[:40], values[40:]).message)
    assert raised <= 60 * FALSE_ALARMS


@pytest.mark.parametrize(("change", "direction"), [(-1.7, "lower"), (1.7, "higher")])
def test_a_change_is_seen_within_30_questions(change: float, direction: str) -> None:
    random = np.random.default_rng(1)
    seen = 0
    for _ in range(20):
        known, new = random.normal(size=(60, 3)), random.normal(size=(30, 3))
        new[:, 1] += change
        message = alarm_after(known, new).message
        seen += f"the reward is {direction} than for the calibration questions" in message
    assert seen >= 19


def test_a_late_change_is_seen_too() -> None:
    random = np.random.default_rng(2)
    known, same, other = (random.normal(size=(size, 3)) for size in (100, 500, 60))
    assert not alarm_after(known, same).message
    assert "outcome is lower" in alarm_after(known, np.vstack([same, other - [0, 0, 3]])).message


def test_the_capital_is_fair() -> None:
    # The mean capital after three questions is 1 over all orders of six different values.
    random = np.random.default_rng(3)
    final = []
    for _ in range(6_000):
        test = ShiftTest(random.permutation(6)[:3].astype(float))
        for value in random.permutation(6)[:3]:
            test.add(float(value) + random.random() * 1e-6)
        final.append(test.evidence)
    # The largest capital so far is at most that of Ville's inequality.
    for bound in (1.5, 2.0, 4.0):
        assert np.mean(np.array(final) >= bound) <= 1 / bound


def test_a_sorted_file_of_the_same_questions_raises_nothing() -> None:
    random = np.random.default_rng(5)
    known, new = random.normal(size=(60, 1)), np.sort(random.normal(size=(200, 1)), axis=0)
    rows = [{"reward": float(value)} for (value,) in new]
    in_order, as_file = ShiftAlarm({"reward": known[:, 0]}), ShiftAlarm({"reward": known[:, 0]})
    for row in rows:
        in_order.add(row)
    as_file.add_all(rows)
    assert in_order.message and not as_file.message


def test_values_that_are_not_known_change_nothing() -> None:
    alarm = ShiftAlarm({"reward": np.array([0.1, 0.5, np.nan])})
    alarm.add({"reward": float("nan"), "another": 3.0})
    assert not alarm.message
