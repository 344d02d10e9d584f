"""Where results live: tables over DuckDB, one writer, a published copy for readers, and the queries.

Nothing here knows how results are computed; that belongs in ``prmcal.harness``.

    files, run_folder   what an output folder holds, and whether a run is writing to it
    connection          connections to the database
    writer              the one writer: short transactions, bulk loads from Parquet, publishing
    reader              short read-only connections to the published copy
    cells               the ids of cells
    tables              every table, described
    statistics          bootstrap, paired tests, ranks and budgets
    queries             what the command line, the dashboard and the report ask for
    text                leaderboards as Markdown and LaTeX
"""
