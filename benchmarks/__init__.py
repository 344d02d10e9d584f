"""Speed measured side by side, and evidence read from finished runs."""
