"""Adaptive temperature scaling (Xie et al., 2024): a temperature of its own for every prefix."""

from prmcal.registry.calibrators.ats.calibrator import AdaptiveTemperatureScaling

__all__ = ["AdaptiveTemperatureScaling"]
