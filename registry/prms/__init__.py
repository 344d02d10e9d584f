"""Built-in PRMs."""
