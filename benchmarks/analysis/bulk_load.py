"""Rows per second into DuckDB: bulk load from Parquet, against inserts with the ORM.

python -m benchmarks.analysis.bulk_load
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from sqlalchemy.orm import Session

from prmcal.db.reader import engine_for, reading
from prmcal.db.run_folder import database_path
from prmcal.db.tables import Reward
from prmcal.db.writer import Writer

BULK_ROWS, ORM_ROWS, PREFIXES = 1_000_000, 40_000, 8


def rewards(rows: int) -> pa.Table:
    random = np.random.default_rng(0)
    index = np.arange(rows)
    logit = random.normal(size=rows).astype(np.float32)
    return pa.table(
        {
            "question_id": np.char.add("q", (index // (64 * PREFIXES)).astype(str)),
            "trajectory": (index // PREFIXES % 64).astype(np.int32),
            "step": (index % PREFIXES).astype(np.int32),
            "logit": logit,
            "reward": 1 / (1 + np.exp(-logit.astype(np.float64))),
            "over_long": np.zeros(rows, dtype=bool),
        }
    )


def time_bulk(directory: Path) -> float:
    parquet.write_table(rewards(BULK_ROWS), directory / "rewards.parquet")
    writer = Writer(database_path(directory / "bulk"))
    start = time.perf_counter()
    with writer.transaction() as transaction:
        transaction.load("rewards", {"bulk": [directory / "rewards.parquet"]})
    return time.perf_counter() - start


def time_orm(directory: Path) -> float:
    rows = rewards(ORM_ROWS).to_pylist()
    writer = Writer(database_path(directory / "orm"))
    start = time.perf_counter()
    with Session(engine_for(writer.path)) as session:
        session.add_all(Reward(job_key="orm", **row) for row in rows)
        session.commit()
    return time.perf_counter() - start


def stored(path: Path) -> int:
    with reading(path) as connection:
        return int(connection.exec_driver_sql("SELECT count(*) FROM rewards").scalar_one())


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        bulk, orm = BULK_ROWS / time_bulk(directory), ORM_ROWS / time_orm(directory)
        assert stored(database_path(directory / "bulk")) == BULK_ROWS
        assert stored(database_path(directory / "orm")) == ORM_ROWS
    print(f"bulk load   {bulk:12,.0f} rows/s   ({BULK_ROWS:,} rows)")
    print(f"ORM inserts {orm:12,.0f} rows/s   ({ORM_ROWS:,} rows)")
    print(f"ratio       {bulk / orm:12,.0f}")


if __name__ == "__main__":
    main()
