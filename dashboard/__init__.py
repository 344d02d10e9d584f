"""Web pages that only read: leaderboards, calibration, scaling, comparisons. Imports db, nothing else of ours.

prmcal.dashboard.serving.launch       starts the server
prmcal.dashboard.app          the Streamlit script: navigation, and what to say when there is nothing to show
prmcal.dashboard.views        one module per page, or per view of a page
prmcal.dashboard.controls.address      the state of a page stands in its address
prmcal.dashboard.charts.style       the visual language; *_charts: the charts of a page
prmcal.dashboard.serving.screenshots  pictures of every page
"""
