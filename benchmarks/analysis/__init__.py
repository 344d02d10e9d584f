"""Benchmarks that run no model: the audit, the dashboard, and the work of the coordinator."""
