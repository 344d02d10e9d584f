"""What to use for a wanted accuracy or a budget: chosen on calibration questions, reported on test questions.

types           what was wanted, and what is recommended
artifacts       what a run holds of its calibration and test questions
candidates      the strategies and their settings
folds           rewards and pools without the questions that they are judged on
calibration     what each choice reaches on the calibration questions
choosing        the best choice within a budget, and the cheapest with an accuracy
reported        what a choice reaches on the test questions
drawing         more trajectories of the calibration questions
places          every LLM with its PRMs and calibrators
frame           the recommendation as a table
recommend       all of this together
"""
