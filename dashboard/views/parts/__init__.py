"""The parts that pages are composed of: views of a page, and tables that several pages show.

Whole pages belong in `views`, widgets in `controls`, charts in `charts`.
"""
