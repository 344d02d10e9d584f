"""Who computes the shards of a schedule: processes on this machine, and what every other executor shares with them.

A cluster of machines belongs in `prmcal.harness.cluster`. The order of shards belongs in `prmcal.harness.execution`.
"""
