"""A calibrated PRM in use: scores of new prefixes, and answers to new questions.

results      what the other modules return, as plain data
"""
