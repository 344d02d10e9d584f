"""Streamlit's own command line, with what the pages use already there, so that the first reader need not wait for it.

python -m prmcal.dashboard.serving.server run dashboard/app.py -- --dir DIR
"""

from __future__ import annotations

import altair as alt
import duckdb_sqlalchemy  # noqa: F401 the dialect, which SQLAlchemy would look for at the first query
import pandas as pd
from streamlit.web import cli

import prmcal.db.queries.catalog  # noqa: F401


def main() -> None:
    """Draw a chart, for Altair reads its schema at the first, and become the server."""
    alt.Chart(pd.DataFrame({"x": [0.0]})).mark_point().encode(x="x:Q").to_dict()
    cli.main(prog_name="streamlit")


if __name__ == "__main__":
    main()
