"""The contents of a published database, read once for all tables and figures.

    values     measured values and histograms, with the group that they belong to
    read       the calibration results, and the evidence as a whole
    scaling    the results of strategies

How results are shown belongs in `prmcal.harness.report.contents`.
"""
