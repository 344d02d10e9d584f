"""What the dashboard and the static site show in the same way: HTML, its styles and its scripts.

Words belong in `prmcal.db.text`; pages belong in `prmcal.dashboard` and `prmcal.harness.site`.
"""
