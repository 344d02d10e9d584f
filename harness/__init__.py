"""How a grid is run: grid file, plan of jobs, executor, artifacts, database."""
