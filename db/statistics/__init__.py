"""Statistics on arrays: bootstrap, paired tests, ranks, budgets. Nothing here opens a database."""
