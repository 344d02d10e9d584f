"""The built-in strategies, and the mathematics of samples from a pool.

The contracts of strategies are in `contracts`. How a search is run belongs in the harness.
"""
