"""Parts of pages, each used by one or more pages. Whole pages belong in `views`."""
