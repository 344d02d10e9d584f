"""Where results live: tables, writer, readers and queries over DuckDB.

Running a grid belongs in ``prmcal.harness``.

run_folder    the paths of an output folder, and whether a run writes to it
connection    connections to a database file, and the check of its layout
writer        the only writer: short transactions and publishing
loading       bulk loads from Parquet and from columns
reader        short read-only connections to the published copy
replicates    the bootstrap replicates that artifacts keep
cells         the identifiers of cells
cell_names    their short numbers, and the cell that a reader means
metrics       the metrics of the leaderboards: titles, directions, descriptions
roles         the few plugins that need special treatment
variants      plugins of a merged leaderboard with one name in the grids
tiers         the cells that were verified at a tier
tables        all tables, with descriptions
statistics    intervals, bootstrap, bins, paired tests, standings and budgets
queries       the queries of the command line, the dashboard and the report
catalog       all queries by name
text          how leaderboards are presented: words, marks, Markdown and LaTeX
"""
