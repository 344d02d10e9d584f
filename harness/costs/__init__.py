"""What a plan costs before it runs: samples, tokens, time, GPU-hours, disk.

What a run measured belongs in `prmcal.db`.
"""
