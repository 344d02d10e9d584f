"""Numbers that follow from metrics and curves: statistics of metrics, reliability bins, curves, selective answering.

Calibration metrics belong in `prmcal.registry.metrics`, intervals and comparisons in `prmcal.db.statistics`, the
formulas of strategies in `prmcal.registry.strategies`.
"""
