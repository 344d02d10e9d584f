"""How a plan is run: the schedule, the workers, the progress display, and the recorder of the database.

What a shard computes belongs in `prmcal.harness.jobs`.
"""
