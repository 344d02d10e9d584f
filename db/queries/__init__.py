"""Queries of a database, one module for each subject. Computing numbers from samples belongs in `statistics`.

`prmcal.db.catalog` has all queries by name.
"""
