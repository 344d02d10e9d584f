"""What each command of ``prmcal`` does and prints, one module for each.

The options of the commands belong in `prmcal.harness.cli`.
"""
