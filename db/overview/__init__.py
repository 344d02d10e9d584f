"""The overview and the league: which calibrator or strategy is best over all settings of a grid, and its gain.

A setting is a combination of data set, LLM and PRM. The words for both belong in `prmcal.db.text`.
"""
