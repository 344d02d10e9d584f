"""What is merged: submissions as they are read, and what decides where each belongs.

folder          the layout of a merged leaderboard
contents        what an artifact contains, independent of how it is written
conditions      what decides for all rows of a submission
submitted       a submission, read
places          where a merged leaderboard has the artifacts of its submissions
inputs          from folders and files to submissions
verifications   the records of verifications, and the tier of a cell
"""
