"""The calibrator `ats`: adaptive temperature scaling (Xie et al., 2024), a temperature for each prefix.

Temperature scaling with a single temperature is in `calibrators`.
"""

from prmcal.registry.calibrators.ats.calibrator import AdaptiveTemperatureScaling

__all__ = ["AdaptiveTemperatureScaling"]
