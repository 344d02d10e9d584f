"""DuckDB has one result at a time: rows that another statement has replaced are refused. Rows are inserted together."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from prmcal.db.reader import engine_for


def test_rows_that_were_not_read_before_the_next_statement_are_an_error(tmp_path: Path) -> None:
    numbers = sa.text("SELECT unnest([1, 2, 3])")
    with engine_for(tmp_path / "numbers.duckdb").connect() as connection:
        first, second = connection.execute(numbers).scalars(), connection.execute(numbers).scalars()
        assert second.all() == [1, 2, 3]
        with pytest.raises(sa.exc.InvalidRequestError, match="These rows are gone"):
            first.all()
        connection.execute(sa.text("CREATE TABLE several (number INTEGER)"))
        connection.execute(sa.text("INSERT INTO several VALUES (:number)"), [{"number": 1}, {"number": 2}])
        assert connection.execute(sa.text("SELECT sum(number) FROM several")).scalar() == 3
