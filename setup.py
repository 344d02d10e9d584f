"""What is built: the folders at the top level are the packages of prmcal. No build follows the links in src/prmcal."""

from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.editable_wheel import editable_wheel

ROOT = Path(__file__).parent
PARTS = ("dashboard", "db", "grids", "harness", "registry")


class EditableWheel(editable_wheel):
    """Installs the folder src itself if its links lead to all parts, because type checkers find nothing otherwise."""

    def finalize_options(self) -> None:
        """Choose what is installed."""
        if all((ROOT / "src" / "prmcal" / part).is_dir() for part in PARTS):
            self.distribution.package_dir = {"": "src"}
            self.distribution.packages = ["prmcal"]
        super().finalize_options()


missing = [f"{part}/__init__.py" for part in PARTS if not (ROOT / part / "__init__.py").is_file()]
if missing:
    raise SystemExit(f"prmcal cannot be built without {', '.join(missing)}. Get the whole repository.")
setup(
    packages=[
        "prmcal",
        *(f"prmcal.{name}" for part in PARTS for name in find_packages(include=[part, f"{part}.*"])),
    ],
    cmdclass={"editable_wheel": EditableWheel},
)
