"""``python -P -m prmcal.dashboard OPTIONS -- DIR...``: the server that ``prmcal dashboard DIR...`` starts.

The options are Streamlit's, such as ``--server.port=8501``. The modules of the pages are imported before the first
reader comes, who would otherwise wait for them. So are the leaderboards, which take longest, read into the cache that
all readers share.
"""

import importlib.util
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from prmcal.db.run_folder import published_path
from prmcal.errors import DatabaseError

_OPTIONS = (
    "--server.address=127.0.0.1",
    "--browser.gatherUsageStats=false",
    "--client.toolbarMode=minimal",
    "--client.showErrorDetails=none",
    "--server.fileWatcherType=none",
    "--server.showEmailPrompt=false",
    # Streamlit draws captions and labels in a paler tone of the text colour. With its own text colour, their contrast
    # on a light page is 3.9:1.
    "--theme.light.textColor=#111111",
    "--theme.light.primaryColor=#0072B2",
    "--theme.dark.primaryColor=#56B4E9",
)
_SCRIPT = Path(__file__).with_name("script") / "prmcal_dashboard.py"


def main() -> None:
    """Serve the pages until the process ends. Raise SystemExit if Streamlit is not installed."""
    if importlib.util.find_spec("streamlit") is None or importlib.util.find_spec("altair") is None:
        raise SystemExit(
            "The dashboard needs Streamlit and Altair. Install them in a clone of prmcal: pip install '.[dashboard]'"
        )
    from streamlit.web import cli

    directories = [Path(each) for each in sys.argv[sys.argv.index("--") + 1 :]]
    threading.Thread(target=_read_leaderboards, args=(directories,), daemon=True).start()
    cli.main(["run", str(_SCRIPT), *_OPTIONS, *sys.argv[1:]], prog_name="streamlit")


def _read_leaderboards(directories: Sequence[Path]) -> None:
    """Fill the cache of the server. A reader who comes meanwhile waits for the same result."""
    import altair as alt
    import duckdb_sqlalchemy  # noqa: F401 SQLAlchemy would import this dialect at the first query
    import pandas as pd
    from streamlit import runtime

    import prmcal.db.catalog  # noqa: F401

    alt.Chart(pd.DataFrame({"x": [0.0]})).mark_point().encode(x="x:Q").to_dict()  # Altair reads its schema.
    while not runtime.exists():  # Streamlit warns of a cache that is made before.
        time.sleep(0.02)
    from prmcal.dashboard.views.leaderboard import read_ahead

    for directory in directories:
        with suppress(DatabaseError):  # The page shows it.
            read_ahead(published_path(directory))


if __name__ == "__main__":
    main()
