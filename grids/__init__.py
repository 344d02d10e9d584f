"""The grids that are shipped, which commands find by their names, and what they read."""

from pathlib import Path


def shipped_grids() -> dict[str, Path]:
    """Return the names of the shipped grids and their files, sorted by name."""
    return {path.stem: path for path in sorted(Path(__file__).parent.glob("*.yaml"), key=lambda path: path.stem)}
