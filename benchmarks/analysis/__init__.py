"""Benchmarks of speed that run no model: metrics, the database and the dashboard."""
