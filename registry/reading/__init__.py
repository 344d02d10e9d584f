"""Files of records, and the solutions, scores and labels in them: one reader for `prmcal audit` and for the plugins.

`records` reads a file, `files` several ones together, `shapes` knows published formats, and `solutions` all others.
`recordings` has the solutions as completions, for the LLM and the PRM `recorded`.
`pools` has the schema of pools, their cards and the shipped ones.
"""
