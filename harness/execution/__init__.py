"""How a plan is run: the run itself, the progress display, the log, and the recorder of the database.

The order of shards belongs in `prmcal.harness.scheduling`, and the processes belong in `prmcal.harness.executors`. What
a shard computes belongs in `prmcal.harness.jobs`.
"""
