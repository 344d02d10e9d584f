"""One module per page, each with ``show(path)``."""
