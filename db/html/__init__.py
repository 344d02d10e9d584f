"""What the dashboard and the static site show in the same way: HTML with its styles and its scripts.

    overview    the overview and the league as HTML
    boards      boards as tables of DataTables

Words belong in `prmcal.db.text`; pages belong in `prmcal.dashboard` and `prmcal.harness.site`.
"""
