from __future__ import annotations

from typing import get_args

import pytest
import sqlalchemy as sa

from prmcal.db.tables import Base, Search, TrajectoryRow
from prmcal.registry.grading import Verdict

TABLES = Base.metadata.sorted_tables


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_table_and_column_is_described(table: sa.Table) -> None:
    assert table.comment
    assert [column.name for column in table.columns if not column.comment] == []


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_no_table_has_a_foreign_key(table: sa.Table) -> None:
    assert not table.foreign_keys


def test_probabilities_are_stored_in_64_bits() -> None:
    narrow = {
        f"{table.name}.{column.name}"
        for table in TABLES
        for column in table.columns
        if isinstance(column.type, sa.Float) and not isinstance(column.type, sa.Double)
    }
    assert narrow == {"rewards.logit"}


@pytest.mark.parametrize("model", [TrajectoryRow, Search])
def test_all_verdicts_are_described(model: type[Base]) -> None:
    comment = model.__table__.columns["verdict"].comment
    *others, last = get_args(Verdict)
    assert comment == f"Verdict on the answer: {', '.join(others)} or {last}"
