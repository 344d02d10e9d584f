"""Calibrators from outside of prmcal. The entry points of the package name them."""
