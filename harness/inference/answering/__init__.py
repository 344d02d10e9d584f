"""How new questions are answered.

asking         what is asked: the strategy and its settings
solving        strategies that draw whole trajectories, for many questions at once
searching      beam searches
drawing        trajectories, whole or step by step
open_question  a question while it is answered
solutions      what is said of a question in the end
"""
