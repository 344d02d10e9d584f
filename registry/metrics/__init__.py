"""The built-in calibration metrics. Intervals and comparisons belong in ``prmcal.db.statistics``."""
