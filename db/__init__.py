"""Where results live: tables, writer, readers and queries over DuckDB.

Running a grid belongs in ``prmcal.harness``.

run_folder    the paths of an output folder, and whether a run writes to it
dialect       DuckDB for SQLAlchemy
reader        connections for a writer and for readers, and the check of the layout
writer        the only writer: the file, its transactions and publishing
metrics       the names of leaderboards, metrics and cells
tables        all tables, with descriptions
statistics    intervals, bootstrap, bins, paired tests, standings and budgets
queries       the queries of the command line, the dashboard and the report
overview      the ranking of calibrators over all settings, and the league of strategies
catalog       all queries by name
text          how leaderboards are presented: words, marks and Markdown
"""
