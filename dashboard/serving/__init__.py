"""The web server: how it starts, a server in the background, and screenshots. The pages belong in `views`."""
