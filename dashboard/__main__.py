"""``python -P -m prmcal.dashboard OPTIONS -- DIR...``: the server that ``prmcal dashboard DIR...`` starts.

The options are Streamlit's, such as ``--server.port=8501``. The server answers once it has imported the modules of the
pages and read the overview, so that nobody waits at a blank page. It reads the leaderboards, which take longest, after
it has drawn the first page, into the cache that all readers share.
"""

import importlib.util
import sys
import threading
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
_SECONDS_ALONE = 10  # the time that the server leaves to the first page
_SCRIPT = Path(__file__).with_name("script") / "prmcal_dashboard.py"


def main() -> None:
    """Serve the pages until the process ends. Raise SystemExit if Streamlit is not installed."""
    if importlib.util.find_spec("streamlit") is None or importlib.util.find_spec("altair") is None:
        raise SystemExit(
            "The dashboard needs Streamlit and Altair. Install them in a clone of prmcal: pip install '.[dashboard]'"
        )
    from streamlit.web import cli

    paths = [published_path(Path(each)) for each in sys.argv[sys.argv.index("--") + 1 :]]
    _read_overview(paths[0])
    threading.Thread(target=_read_leaderboards, args=(paths,), daemon=True).start()
    cli.main(["run", str(_SCRIPT), *_OPTIONS, *sys.argv[1:]], prog_name="streamlit")


def _read_overview(path: Path) -> None:
    import altair as alt
    import pandas as pd

    from prmcal.dashboard import app  # noqa: F401 the modules of all pages
    from prmcal.dashboard.views.leaderboard import read_overview

    alt.Chart(pd.DataFrame({"x": [0.0]})).mark_point().encode(x="x:Q").to_dict()  # Altair reads its schema.
    with suppress(Exception):  # The page shows it.
        read_overview(path)


def _read_leaderboards(paths: Sequence[Path]) -> None:
    """Fill the cache of the server. A reader who comes meanwhile waits for the same result."""
    from prmcal.dashboard.app import drawn
    from prmcal.dashboard.views.leaderboard import read_leaderboards, read_overview

    drawn.wait(_SECONDS_ALONE)  # Both at once would make the first page twice as slow.
    for path in paths:
        with suppress(DatabaseError):
            read_overview(path)
            read_leaderboards(path)


if __name__ == "__main__":
    main()
