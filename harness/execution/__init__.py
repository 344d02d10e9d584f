"""When and where jobs are computed, and how their results are recorded. Their order in a grid belongs in `planning`.

run           a grid, or only the recording
recorder      results and their comparisons in the database
dependencies  which shards can run now
schedule      which of them a worker takes, with failures and lost workers
events        outcomes of shards, and notices
local         the contract of executors, and the executor on this machine
worker        a process that computes shards
progress      the progress on the terminal, in the log and in a file
ending        how a run and its shards end
machine       GPUs, hardware, versions of packages, and the seats of workers

A cluster of machines belongs in `prmcal.harness.cluster`.
"""
