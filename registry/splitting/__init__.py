"""How the text of an LLM becomes steps: the rules, the limits of a step, and thoughts."""
