"""``prmcal ask``: answer new questions with a calibrated PRM.

one_question   a question and its answer on the terminal
many           questions from a file, with their answers in another
"""
