"""A calibrated PRM in use: scores of new prefixes, and answers to new questions.

calibrated_prm   what ``prmcal.load`` returns
waiting          calls that wait in an event loop, made together
sources          where a calibrated PRM comes from
answering        how questions are answered
basis            what answers rest on: the models, their rewards, and the calibration questions
"""
