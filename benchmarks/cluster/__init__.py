"""What a cluster costs: scheduling, and nodes that are killed."""
