"""What the commands that show results print."""
