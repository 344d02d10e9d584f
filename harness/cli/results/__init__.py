"""The output of the commands that show results."""
