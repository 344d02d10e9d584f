"""Web pages that only read: leaderboards, calibration, scaling, comparisons. Imports db, nothing else of ours.

dashboard.launch       starts the server
dashboard.app          the Streamlit script: navigation, and what to say when there is nothing to show
dashboard.views        one module per page, or per view of a page
dashboard.address      the state of a page stands in its address
dashboard.charts       the visual language; *_charts: the charts of a page
dashboard.screenshots  pictures of every page
"""
