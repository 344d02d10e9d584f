"""From a grid file to its plan, the jobs and their dependencies, and to what they will cost.

grid          the fields of a grid file
settings      the fields of its entries and parts
reading       finding and reading grid files, and their JSON Schema
resolved      a grid with its plugins and questions
planner       all jobs and cells of a grid
chain         jobs from trajectories to calibrated rewards
plan          the plan, parts of it, its jobs and shards
preflight     the plugins that will not work
saved         the plan in the folder of a run
costs         samples, tokens and seconds
gpu_hours     the same, from the sizes of models
"""
