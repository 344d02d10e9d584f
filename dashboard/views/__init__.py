"""The pages: one module for each, with a function ``show(path)``. What several pages show belongs in `shared`."""
