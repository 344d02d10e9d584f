"""The names on a merged leaderboard, which tell variants apart, and their order.

differences     what differs between things of one name, in words
words           what tells plugins and data sets apart that differ under one name
namespaces      which submissions may be compared row by row, and what tells the LLMs of each apart
contradictions  which jobs contradict those of another submission
names           all names of a merged leaderboard
order           one order of names from the orders of several submissions
catalogue       plugins, data sets and metrics with their names, in their order
"""
