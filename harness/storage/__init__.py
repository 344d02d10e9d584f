"""Writing to folders: the lock, the record and the artifacts of a run, and folders that are replaced as a whole.

The content of artifacts belongs in `prmcal.harness.jobs`. The paths in a run's folder belong in `prmcal.db.run_folder`.
"""
