"""When and where jobs are computed, and how their results are recorded. Their order in a grid belongs in `planning`.

run         a grid, a further plan, or only the recording
recorder    results and their comparisons in the database
schedule    the order of shards, and what an executor does with it
local       the loop over a schedule, and the executor on this machine
worker      a process that computes shards
progress    the progress on the terminal, in the log and in a file
ending      how a run and its shards end
machine     GPUs, hardware and versions of packages

A cluster of machines belongs in `prmcal.harness.cluster`.
"""
