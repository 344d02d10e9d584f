"""Results as HTML, with styles and scripts: the common parts of the dashboard and the exported page.

Words belong in `prmcal.db.text`; pages belong in `prmcal.dashboard` and `prmcal.harness.site`.
"""
