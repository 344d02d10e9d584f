"""A question on page "Try it": while it is solved, and what came of it."""
