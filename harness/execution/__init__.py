"""How a plan is run: schedule, workers, progress, and what is written to the database.

What a shard computes belongs in `prmcal.harness.jobs`.
"""
