"""The order of shards, what came of each, and why some failed. Nothing here computes a shard or starts a process."""
