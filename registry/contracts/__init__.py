"""The contracts that plugins fulfil, and the data that passes between them."""
