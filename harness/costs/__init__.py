"""The estimated costs of a plan: samples, tokens, time, GPU-hours, disk and memory.

The measured costs of a run belong in `prmcal.db`.
"""
