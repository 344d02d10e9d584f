"""Bringing databases of earlier layouts to the current one, with Alembic's operations.

A module ``layout_N`` changes a database of layout N - 1. To change a table, change its model, raise
``SCHEMA_VERSION``, write such a module and list it in ``steps``. A test compares what the migrations give with what the
models declare. Recognising the layout of a database belongs in `prmcal.db.layout`.

steps      the migrations in their order, and running them on an open connection
files      migrating a database file, or a copy of it
"""
