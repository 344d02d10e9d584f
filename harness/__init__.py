"""The run of a grid: the command line, grid files, plans of jobs, execution, artifacts, metrics and reports.

Plugins and their contracts belong in `prmcal.registry`; tables and queries of results belong in `prmcal.db`.
"""
