"""Benchmarks: speed against naive implementations and peers, and tables from finished runs. Tests are in `tests`."""
