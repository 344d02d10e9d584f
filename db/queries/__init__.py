"""What readers ask of a database: one module for each subject.

`catalog` has all of them by name. How numbers are computed from samples belongs in `statistics`.
"""
