"""What answers rest on.

results                what users get, as plain data
rewarding              uncalibrated and calibrated rewards of prefixes
models                 the LLM and the PRM side by side
calibration_questions  the questions that the calibrator was fitted to, with their graded trajectories
confidence             the probability that an answer is right
familiarity            whether a question is like the calibration questions
"""
