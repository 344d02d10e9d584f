"""DataFrames that charts and tables are drawn from. Nothing here opens the database or draws."""
