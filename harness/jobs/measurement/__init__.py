"""The jobs that measure: they compute results from artifacts and run no model.

The formulas belong in `prmcal.harness.metrics`.
"""
