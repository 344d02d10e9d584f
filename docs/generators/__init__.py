"""The parts of the documentation that are written from the code: commands, grid file, plugins, metrics, API.

``python -m docs.generators`` writes them into the pages, so that they can be read in the repository. A page has
the comment ``<!-- generated: NAME -->`` before a part, and ``<!-- end -->`` after it. Each part is a function that
returns Markdown. Where a page has ``<!-- details: NAME -->``, the built documentation has docstrings in full.
"""
