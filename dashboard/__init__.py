"""A web page that only reads: the leaderboards and every cell's reliability. Imports db, nothing else of ours.

dashboard.launch   starts the server
dashboard.app      the Streamlit script: navigation, and what to say when there is nothing to show
dashboard.views    one module per page
"""
