"""Queries that compare: two cells, two runs, and the questions that they have in common."""
