"""Files of records, and the solutions, scores and labels in them: one reader for `prmcal audit` and for the plugins.

`records` reads a file, and `files` several ones together. `shapes` knows published formats, `fields` finds the roles of
the fields of all others, and `solutions` reads both. `recordings` has the solutions as completions, for the LLM and the
PRM `recorded`. `pools` has the schema of pools, their cards and the shipped ones.
"""
