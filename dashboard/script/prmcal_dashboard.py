"""The script that Streamlit runs whenever a page is drawn. The content of the pages belongs in `prmcal.dashboard.app`.

Its argument is the output folder of a run.
"""

import sys
from pathlib import Path

from prmcal.dashboard.app import main

if __name__ == "__main__":
    main(Path(sys.argv[1]))
