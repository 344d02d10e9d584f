"""The pages: one module for each, with a function ``show(path)``. Parts of pages belong in `views.parts`."""
