"""How a grid is run: the command line, grid files, plans of jobs, execution, artifacts, metrics and reports.

What can be benchmarked belongs in `prmcal.registry`; tables and queries of results belong in `prmcal.db`.
"""
