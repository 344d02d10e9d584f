"""Statistics on arrays and tables: bootstrap, paired tests, standings and budgets. No database is opened here."""
