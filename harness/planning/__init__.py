"""From a grid file to its plan: the jobs and their dependencies. What they cost belongs in `prmcal.harness.costs`."""
