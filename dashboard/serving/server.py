"""The command line of Streamlit, started with the imports that all pages need.

``python -P -m prmcal.dashboard.serving.server run SCRIPT -- --dir DIR...`` imports them before the first reader comes,
who would otherwise wait for them.
"""

from __future__ import annotations

import altair as alt
import duckdb_sqlalchemy  # noqa: F401 SQLAlchemy would import this dialect at the first query
import pandas as pd
from streamlit.web import cli

import prmcal.db.queries.catalog  # noqa: F401


def main() -> None:
    """Draw one chart, so that Altair reads its schema now, and start the server."""
    alt.Chart(pd.DataFrame({"x": [0.0]})).mark_point().encode(x="x:Q").to_dict()
    cli.main(prog_name="streamlit")


if __name__ == "__main__":
    main()
