"""``python -P -m prmcal.dashboard OPTIONS -- DIR``: the server that ``prmcal dashboard DIR`` starts.

The options are Streamlit's, such as ``--server.port=8501``. The server answers once it has imported the modules of the
pages, and has read the overview of the run into the cache that all readers share. So nobody waits at a blank page. It
reads the leaderboards while the reader looks at the overview.
"""

import importlib.util
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread

from prmcal.db.run_folder import published_path

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
    try:
        from streamlit.web import cli

        _read_ahead(published_path(Path(sys.argv[-1])))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    cli.main(["run", str(_SCRIPT), *_OPTIONS, *sys.argv[1:]], prog_name="streamlit")


def _read_ahead(path: Path) -> None:
    import altair as alt
    import pandas as pd

    from prmcal.dashboard import app  # noqa: F401 the modules of all pages
    from prmcal.dashboard.views import leaderboard

    alt.Chart(pd.DataFrame({"x": [0.0]})).mark_point().encode(x="x:Q").to_dict()  # Altair reads its schema.

    def read_leaderboards() -> None:
        with suppress(Exception):
            leaderboard.read_leaderboards(path)

    with suppress(Exception):  # The page shows it.
        leaderboard.read_overview(path)
        Thread(target=read_leaderboards, daemon=True).start()


if __name__ == "__main__":
    main()
