"""Model classes, and how weights are found and loaded. How a PRM reads a prefix belongs in `prms`."""
