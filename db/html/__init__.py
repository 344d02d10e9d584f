"""Results as HTML, with styles and scripts: what the dashboard and the static site show in the same way.

Words belong in `prmcal.db.text`; pages belong in `prmcal.dashboard` and `prmcal.harness.site`.
"""
