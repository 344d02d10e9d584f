"""The overview: which calibrator is best over all places of a grid, and what it gains.

A place is a combination of data set, LLM and PRM. How an overview is worded belongs in `prmcal.db.text.overview`.
"""
