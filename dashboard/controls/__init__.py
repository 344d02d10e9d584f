"""Widgets with which a reader selects, filters and downloads, and cached queries. Pages belong in `views`."""
