"""The overview and the league: which calibrator or strategy is best over all places of a grid, and what it gains.

A place is a combination of data set, LLM and PRM. The words for both belong in `prmcal.db.text`.
"""
