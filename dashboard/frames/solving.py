"""What is known of a question while it is solved, from the events of the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["Solving", "reward_table", "sample_table"]

_UNMEASURED = ("success", "low", "high")
_BUDGETS = ("budget_reward", "budget_calibrated", "budget_success")


@dataclass
class Solving:
    """A question that is being solved, or was.

    Attributes
    ----------
    bare : dict or None
        The event ``step`` of the bare question.
    steps : dict
        For each trajectory, from 0, its steps that have come. Each is the event ``step`` of the server.
    current : int
        The trajectory to show. Several can grow at the same time, and this stays the same one as long as it grows.
    solution : dict or None
        The event ``solution``; None until it has come.
    error : str
        Why there will be no solution; empty if nothing went wrong.
    """

    bare: dict[str, Any] | None = None
    steps: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    current: int = 0
    solution: dict[str, Any] | None = None
    error: str = ""
    _others: set[int] = field(default_factory=set)

    def add(self, event: dict[str, Any]) -> None:
        """Add an event."""
        if event["event"] == "solution":
            self.solution = event
        elif event["step"] == 0:
            self.bare = event
        else:
            self._follow(event)
            self.steps.setdefault(event["trajectory"], []).append(event)

    def along(self, trajectory: int) -> list[dict[str, Any]]:
        """Return the bare question and the steps of a trajectory."""
        return [*([self.bare] if self.bare else []), *self.steps.get(trajectory, [])]

    def _follow(self, event: dict[str, Any]) -> None:
        """Show another trajectory if this one has its answer, or did not grow while another one did twice."""
        trajectory, shown = event["trajectory"], self.steps.get(self.current)
        if trajectory == self.current:
            self._others.clear()
        elif trajectory in self._others or (shown and shown[-1]["terminal"]):
            self.current = trajectory
            self._others.clear()
        else:
            self._others.add(trajectory)


def reward_table(steps: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return one row for each step of a trajectory that has come.

    Returns
    -------
    DataFrame
        The columns of :func:`prmcal.dashboard.frames.steps.step_table` that charts need. Nothing was measured, so
        success rates and budgets are missing. A prefix that contains its final answer has no calibrated reward, since
        calibrators are fitted without such prefixes.
    """
    ends = [_ends(None if step["terminal"] else step["quantiles"]) for step in steps]
    unknown = dict.fromkeys((*_UNMEASURED, *_BUDGETS), np.nan)
    columns = {
        "step": [step["step"] for step in steps],
        "reward": [step["uncalibrated"] for step in steps],
        "calibrated": [None if step["terminal"] else step["point"] for step in steps],
        "band_low": [low for low, _ in ends],
        "band_high": [high for _, high in ends],
    }
    return pd.DataFrame(columns, dtype=np.float64).astype({"step": int}).assign(**unknown)


def sample_table(solving: Solving) -> pd.DataFrame:
    """Return one row for each trajectory of a solution: sample, answer, steps, tokens and reward.

    The reward is the calibrated one of the longest prefix without an answer.
    """
    assert solving.solution is not None
    rows = []
    for place, trajectory in enumerate(solving.solution["trajectories"]):
        steps = solving.along(place)
        known = [step["point"] for step in steps if not step["terminal"]]
        rows.append(
            {
                "sample": place + 1,
                "answer": trajectory["answer"],
                "steps": max((step["step"] for step in steps), default=None),
                "tokens": trajectory["tokens"],
                "reward": known[-1] if known else None,
            }
        )
    return pd.DataFrame(rows, columns=["sample", "answer", "steps", "tokens", "reward"])


def _ends(quantiles: Sequence[float] | None) -> tuple[float, float]:
    """Return the lowest and the highest quantile; NaN for a point estimate."""
    if quantiles is None or len(quantiles) < 2:
        return np.nan, np.nan
    return quantiles[0], quantiles[-1]
