"""What the commands that run a grid do and print."""
