"""`prmcal audit`: what the scores in a file are worth, and a calibrator for them.

`shapes` turns the records of any known file into solutions, `scored` turns solutions into rows of prefixes, `estimates`
measures them, `verdict` writes the answer, and `saved` keeps the calibrator.
"""
