"""The script that Streamlit runs whenever a page is drawn. What the pages show belongs in `prmcal.dashboard.app`."""

from prmcal.dashboard.app import main

main()
