"""Model classes, and how weights are found and loaded.

How a PRM reads a prefix is in `prms`, and how completions are sampled is in `llms`.
"""
