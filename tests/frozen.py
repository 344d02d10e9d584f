"""The last module that a process imports before it forks others: what is there by now is never collected.

A child that collects these objects would copy all of their memory, which takes longer than most of its work.
"""

import gc

gc.freeze()
