"""Benchmarks that run a model: sampling, scoring and training. What runs without a model is in `analysis`."""
