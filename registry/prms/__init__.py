"""The built-in PRMs and the token trees that they score with.

Model classes and the loading of weights are in `models`.
"""
