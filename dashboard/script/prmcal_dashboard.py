"""The script that Streamlit runs whenever a page is drawn. What the pages show belongs in `prmcal.dashboard.app`.

Its arguments are the output folders of the runs.
"""

import sys
from pathlib import Path

from prmcal.dashboard.app import main

if __name__ == "__main__":
    main([Path(each) for each in sys.argv[1:]])
