"""Queries of trajectories and their prefixes: texts, rewards and success counts."""
