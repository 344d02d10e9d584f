"""Benchmarks that run no model: metrics, strategies, the database and the dashboard."""
