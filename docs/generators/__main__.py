"""Write the parts of the documentation that follow from the code into its pages."""

from pathlib import Path

from docs.generators.pages import write

write(Path(__file__).parents[1])
