"""The parts of the documentation that are written from the code: commands, grid file, plugins, metrics, API.

A page has the comment ``<!-- generated: NAME -->`` where a part stands. Each part is a function that returns Markdown.
"""
