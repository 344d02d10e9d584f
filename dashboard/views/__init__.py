"""The pages: one module for each, with a function ``show(path)``. Common parts of pages belong in `shared`."""
