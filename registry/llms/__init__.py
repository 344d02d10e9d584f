"""Built-in LLMs."""
