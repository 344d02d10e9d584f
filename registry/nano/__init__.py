"""The embedded nano world: a problem generator, three tiny policies and a tiny reward model trained on it."""
