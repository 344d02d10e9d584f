"""Runs on many machines with Ray: workers on the nodes of a cluster, and the files that they need and make.

Ray is imported only when a run uses it. Shards compute the same results in the same order as on one machine.
"""
