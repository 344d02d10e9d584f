"""Results as HTML, with styles and scripts: what the dashboard and the exported page show in the same way.

Words belong in `prmcal.db.text`; pages belong in `prmcal.dashboard` and `prmcal.harness.site`.
"""
