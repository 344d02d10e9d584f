"""Widgets with which a reader selects, filters, pages and downloads. What a page then shows belongs in `views`."""
