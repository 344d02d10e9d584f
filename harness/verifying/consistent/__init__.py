"""The first tier, which needs no model and no texts: keys, questions, artifacts, results, copies and chances.

A check belongs here if it reads the submission, and at most a data set that is on this machine.
"""
