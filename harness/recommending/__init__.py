"""Recommendations for a wanted accuracy or a budget: chosen on calibration questions, reported on test questions.

recommend  the whole recommendation, the order of the choices, and more trajectories of the calibration questions
types      the wish and the recommendation, also as a table
places     every LLM of a run with its PRMs and calibrators
measured   the strategies, and what each choice reaches on test questions, and on calibration questions without those
           that it is judged on
"""
