"""Built-in calibrators."""
