"""How often the alarm is raised within 30 questions: ``python -m benchmarks.statistics.shift_alarm``.

One of four values moves by some standard deviations. With a change of 0, 500 questions come.
"""

import numpy as np

from prmcal.db.statistics.shift import ShiftAlarm

_NAMES = ("length", "bare", "first", "outcome")
_TRIALS = 300


def raised(known: int, change: float, random: np.random.Generator) -> bool:
    """Return if the alarm is raised with some calibration questions and a change of one value."""
    alarm = ShiftAlarm({name: random.normal(size=known) for name in _NAMES})
    for values in random.normal([0, 0, change, 0], size=(30 if change else 500, 4)).tolist():
        alarm.add(alarm.place(), dict(zip(_NAMES, values, strict=True)))
    return bool(alarm.message)


def main() -> None:
    """Print a line for each number of calibration questions and each change."""
    random = np.random.default_rng(1)
    for known in (40, 60, 200):
        for change in (0.0, 0.5, 1.0, 1.5, 2.0):
            share = np.mean([raised(known, change, random) for _ in range(_TRIALS)])
            print(f"{known:>4} calibration questions, change {change:g}: {share:.1%}")


if __name__ == "__main__":
    main()
