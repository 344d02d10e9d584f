"""What the commands for files of a run and of other programs do."""
