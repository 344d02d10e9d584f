"""The web server: how it starts, and how tests and pictures use it. The pages belong in `views`."""
