"""The charts, one module for each page that has its own. The data for them belongs in `prmcal.db`."""
