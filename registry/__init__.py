"""What can be benchmarked: the contracts of LLMs, PRMs, calibrators, data sets and strategies, and built-in plugins.

How they are run belongs in ``prmcal.harness``. This package imports none of prmcal's other packages.
"""
