"""A published database of any shape, with names that Markdown and LaTeX would trip over."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from prmcal.db.metrics import cell_id
from prmcal.db.run_folder import database_path
from prmcal.db.tables import Base, Cell, Comparison, PluginRow, RunRow
from prmcal.db.writer import Transaction, Writer
from tests.measured import described_rows

METRICS = ("brier", "positive_brier", "ece", "adaptive_ce", "average_ce", "signed_error")
QUESTIONS = 6


def build(
    directory: Path,
    *,
    llms: Sequence[str] = ("weak_1", "strong|2"),
    prms: Sequence[str] = ("prm_a", "prm_b"),
    calibrators: Sequence[str] = ("uncalibrated", "isotonic"),
    datasets: Sequence[str] = ("math", "aime"),
    failed: Collection[str] = (),
    pending: Collection[str] = (),
    reason: str = "out of luck",
) -> Path:
    """Write the database of a run and publish it. `failed` and `pending` name cells by their ids."""
    writer = Writer(database_path(directory))
    kinds = {"llm": llms, "prm": prms, "calibrator": calibrators, "dataset": datasets}
    rows: list[Base] = [
        PluginRow(kind=kind, name=name, plugin=name, arguments={}, identity={}, position=position)
        for kind, names in kinds.items()
        for position, name in enumerate(names)
    ]
    rows += described_rows()
    rows.append(
        RunRow(
            run_id="run-1",
            grid_name="a_grid",
            grid_key="k" * 24,
            grid="name: a_grid\n",
            started_at=datetime(2026, 1, 2, 3, 4, 5),
            finished_at=datetime(2026, 1, 2, 4, 5, 6),
            status="failed" if failed else "done",
            prmcal_version="0.1.0",
            packages={"torch": "2.13.0"},
            hardware={},
        )
    )
    with writer.transaction(publish=True) as transaction:
        transaction.record(rows)
        for number, (dataset, prm, llm) in enumerate(itertools.product(datasets, prms, llms)):
            setting: dict[str, Any] = {"number": number, "dataset": dataset, "prm": prm, "llm": llm}
            status: dict[str, Any] = {"failed": failed, "pending": pending, "reason": reason}
            _setting_rows(transaction, directory / "files", calibrators, **setting, **status)
    return directory


def _setting_rows(
    transaction: Transaction,
    folder: Path,
    calibrators: Sequence[str],
    *,
    number: int,
    dataset: str,
    prm: str,
    llm: str,
    failed: Collection[str],
    pending: Collection[str],
    reason: str,
) -> None:
    names = {each: cell_id("calibration", llm, dataset, prm=prm, calibrator=each) for each in calibrators}
    rows: list[Base] = []
    for calibrator, name in names.items():
        status = "failed" if name in failed else "pending" if name in pending else "done"
        rows.append(
            Cell(
                cell_id=name,
                leaderboard="calibration",
                llm=llm,
                prm=prm,
                calibrator=calibrator,
                dataset=dataset,
                job_key=f"metrics-{name}",
                status=status,
                reason=reason if status == "failed" else None,
            )
        )
    done = {each: name for each, name in names.items() if name not in {*failed, *pending}}
    rows += [
        # The first calibrator is really worse than all; the others cannot be told from one another.
        Comparison(
            leaderboard="calibration",
            metric=metric,
            cell_a=first,
            cell_b=second,
            difference=0.1,
            p_value=0.001,
            p_adjusted=0.004 if first == names[calibrators[0]] else 0.5,
            questions=QUESTIONS,
        )
        for first, second in itertools.combinations(done.values(), 2)
        for metric in METRICS
    ]
    transaction.record(rows)
    for place, name in enumerate(done.values()):
        transaction.load("results", {name: [_results(folder / f"{number}-{place}.parquet", number, place)]})
        bars = _written(folder / f"{number}-{place}-bars.parquet", _bars(number, place))
        transaction.load("signed_error_bins", {name: [bars]})


def _results(path: Path, number: int, place: int) -> Path:
    value = 0.3 / (1 + place) + number / 1000
    return _written(
        path,
        pd.DataFrame(
            {
                "metric": METRICS,
                "question_level": pd.array([None] * len(METRICS), dtype="Int32"),
                "value": value,
                "low": value - 0.02,
                "high": value + 0.03,
                "rows": 71,
                "questions": QUESTIONS,
            }
        ),
    )


def _bars(number: int, place: int) -> pd.DataFrame:
    """A histogram of 71 prefixes."""
    edges = np.linspace(-1, 1, 21)
    counts = np.random.default_rng([number, place]).multinomial(71, [1 / 20] * 20)
    return pd.DataFrame({"bin": range(20), "lower": edges[:-1], "upper": edges[1:], "count": counts})


def _written(path: Path, table: pd.DataFrame) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_parquet(path, index=False)
    return path
