"""A calibrated PRM in use: scores of new prefixes, and answers to new questions.

calibrated_prm         what ``prmcal.load`` returns
loading, choosing      where it comes from, and which cell of a run is used
asking                 the strategy and its settings
solving                answers by strategies that draw whole trajectories, and by searches
drawing                questions while they are answered, and their trajectories
models, rewarding      the LLM and the PRM side by side, and the rewards of prefixes
calibration_questions  the questions that the calibrator was fitted to, by which new ones are judged
results                the results of users, as plain data
"""
