"""The jobs that measure: pure computation from artifacts to results.

The formulas belong in `prmcal.harness.metrics`.
"""
