"""The command line of Streamlit, started with what all pages need.

``python -P -m prmcal.dashboard.serving.server run SCRIPT -- --dir DIR...`` imports the modules of the pages before the
first reader comes, who would otherwise wait for them. It also reads the leaderboards, which take longest, into the
cache that all readers share.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import altair as alt
import duckdb_sqlalchemy  # noqa: F401 SQLAlchemy would import this dialect at the first query
import pandas as pd
from streamlit import runtime
from streamlit.web import cli

import prmcal.db.catalog  # noqa: F401
from prmcal.db.run_folder import published_path
from prmcal.errors import DatabaseError


def main() -> None:
    """Draw one chart, so that Altair reads its schema now, and start the server."""
    alt.Chart(pd.DataFrame({"x": [0.0]})).mark_point().encode(x="x:Q").to_dict()
    directories = [Path(each) for each in sys.argv[sys.argv.index("--dir") + 1 :]]
    threading.Thread(target=_read_leaderboards, args=(directories,), daemon=True).start()
    cli.main(prog_name="streamlit")


def _read_leaderboards(directories: Sequence[Path]) -> None:
    """Fill the cache of the server. A reader who comes meanwhile waits for the same result."""
    while not runtime.exists():  # Streamlit warns of a cache that is made before.
        time.sleep(0.02)
    from prmcal.dashboard.app import read_ahead

    for directory in directories:
        with suppress(DatabaseError):  # The page shows it.
            read_ahead(published_path(directory))


if __name__ == "__main__":
    main()
