"""Statistics on arrays and tables: intervals, bootstrap, bins, paired tests, standings and budgets.

No database is opened here.
"""
