"""``prmcal export-prm``, ``export-success`` and ``import-first-pass``: files for and from other programs."""
