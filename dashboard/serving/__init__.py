"""The web server. The pages belong in `views`."""
