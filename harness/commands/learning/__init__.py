"""What the commands to learn and check do and print."""
