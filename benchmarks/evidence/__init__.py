"""What finished runs show, as tables."""
