"""Runs on many machines with Ray: workers on the nodes of a cluster, and the files that they need and make.

Ray is imported only when a run uses it. What a shard computes and which shard comes next is the same as on one machine.
"""
