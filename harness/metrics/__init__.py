"""The numbers: calibration errors, best-of-n, instance-adaptive scaling, their intervals and comparisons."""
