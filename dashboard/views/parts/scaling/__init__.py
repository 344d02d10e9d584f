"""The views of page Scaling."""
