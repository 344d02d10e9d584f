"""The grids that are shipped, which commands find by their names, and what they read."""
