"""Rows on their way into a database file: from Parquet files of many jobs or cells, and from columns of values."""
