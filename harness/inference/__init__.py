"""A calibrated PRM in use: scores of new prefixes, and answers to new questions.

calibrated_prm         what ``prmcal.load`` returns
loading                where it comes from, and which cell of a run is used
models                 the LLM and the PRM side by side, and the rewards of prefixes
asking                 the settings, and the strategy
drawing                questions while they are answered, and their trajectories
solving                answers
calibration_questions  the questions that the calibrator was fitted to, by which new ones are judged
results                the results of users, as plain data
"""
