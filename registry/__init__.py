"""Contracts of all that can be benchmarked: LLMs, PRMs, calibrators, data sets and strategies, and built-in plugins.

How they are run belongs in ``prmcal.harness``. This package imports none of prmcal's other packages.
"""
