"""What a reader chooses with, and the address that keeps the choice. What is then shown belongs in `views`."""
