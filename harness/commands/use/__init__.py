"""What the commands that use a calibrated PRM do and print."""
