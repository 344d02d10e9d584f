"""What a run's folder holds: artifacts under content keys, the lock, the record.

What an artifact contains belongs in `prmcal.harness.jobs`.
"""
