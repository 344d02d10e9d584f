"""From a grid file to its plan: which jobs there are and what they depend on. What they cost belongs in `costs`."""
