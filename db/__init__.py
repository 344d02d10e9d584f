"""Where results live: tables, writer, readers and queries over DuckDB. Running a grid belongs in ``prmcal.harness``.

run_folder    the paths of an output folder, and whether a run writes to it
connection    connections to a database file
writer        the only writer: short transactions, bulk loads from Parquet, publishing
reader        short read-only connections to the published copy
replicates    the bootstrap replicates that artifacts keep
cells         the identifiers of cells
cell_names    their short numbers, and the cell that a reader means
metrics       the metrics of the leaderboards: titles, directions, descriptions
roles         the few plugins that need special treatment
tables        all tables, with descriptions
statistics    intervals, bootstrap, bins, paired tests, standings and budgets
queries       the queries of the command line, the dashboard and the report
text          how leaderboards are presented: words, marks, Markdown and LaTeX
"""
