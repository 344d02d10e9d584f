"""`prmcal audit`: what the scores in a file are worth, and a calibrator for them.

`scored` turns the solutions of a file, as `registry.reading` finds them, into rows of prefixes, `estimates` measures
them, `verdict` writes the answer, and `saved` keeps the calibrator.
"""
