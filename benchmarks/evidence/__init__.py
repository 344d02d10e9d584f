"""What finished runs show, as tables. Nothing here measures speed but `promise`."""
