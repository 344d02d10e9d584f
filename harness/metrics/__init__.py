"""The formulas of the metrics: calibration errors, coverage, curves, selective answering.

Intervals and comparisons belong in `prmcal.db.statistics`, the formulas of strategies in `prmcal.registry.strategies`.
"""
