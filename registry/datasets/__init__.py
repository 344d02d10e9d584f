"""The built-in data sets. Their contract is in `registry.contracts`, and grading is in `registry.grading`."""
