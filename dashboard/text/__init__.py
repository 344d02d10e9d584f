"""Text as the pages show it: escaped, with formulas set. Tables and charts belong in `views` and `charts`."""
