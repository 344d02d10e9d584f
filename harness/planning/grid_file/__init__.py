"""The grid file: what it may contain, how it is read, its JSON Schema, and the grids that are shipped."""
