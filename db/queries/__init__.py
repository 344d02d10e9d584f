"""Queries of the command line, the dashboard and the report. Most return a DataFrame.

The first parameter of each, `source`, is the path of the published copy, or a connection from
:func:`prmcal.db.reader.reading`. `prmcal.db.catalog` has all queries by name.
"""
