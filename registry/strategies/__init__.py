"""The built-in strategies, and the mathematics of sampling from a pool."""
