"""A calibrated PRM in use: scores of new prefixes, and answers to new questions.

calibrated_prm  what ``prmcal.load`` returns: it draws samples until the strategy needs no more
loading         how it is made from a run, and which cell is used
scoring         the PRM and the calibrator: raw and calibrated rewards of prefixes
results         what a user gets, as plain data
"""
