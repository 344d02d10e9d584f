"""Where results live: tables over DuckDB, one writer, a published copy for readers, queries.

    db.files     what stands where in an output folder
    db.models    every table, described
    db.writer    Writer: short transactions, bulk loads from Parquet, publishing
    db.reader    short read-only connections on the published copy
    db.curves    accuracy against cost: curves, areas, the frontier
    db.costs     what every strategy cost
    db.scaling   a pool of samples as a reader may spend it, for any C and beta
    db.bootstrap intervals by resampling questions; db.paired: whether two cells differ
    db.compare   two cells, paired
    db.readable  leaderboards as Markdown and LaTeX
    db.queries   what the leaderboard, ``prmcal show`` and the dashboard ask for
    db.errors    everything that can go wrong with a database file

Imports none of the other packages. Importing ``db`` itself loads nothing heavy.
"""
