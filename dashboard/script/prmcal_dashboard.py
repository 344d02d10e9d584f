"""The script that Streamlit runs whenever a page is drawn. What the pages show belongs in `prmcal.dashboard.app`.

Its arguments are the address of a server of the first run, which may be empty, and the output folders of the runs.
"""

import sys
from pathlib import Path

from prmcal.dashboard.app import main

if __name__ == "__main__":
    main(sys.argv[1], [Path(each) for each in sys.argv[2:]])
