"""The embedded nano models, their problem generator and their training. Their data sets are in `registry.datasets`."""
