"""The folders of the dashboard import each other in one direction."""

from __future__ import annotations

from tests.conftest import ROOT
from tests.test_imports import imported

DASHBOARD = ROOT / "dashboard"
# For each folder, and for each module beside the folders, what it may import from the others.
ROOMS: dict[str, set[str]] = {
    "data": set(),
    "live": set(),
    "formats": set(),
    "reproduction": set(),
    "charts": {"formats"},
    "controls": {"data", "formats", "charts"},
    "views.parts": {"controls", "charts", "formats", "data", "live"},
    "views": {"views.parts", "controls", "charts", "formats", "reproduction", "data", "live"},
    "app": {"views", "views.parts", "controls", "formats", "data"},
    "serving": {"app", "controls"},
    "__main__": {"serving"},
}


def room_of(module: str) -> str:
    """The key in ROOMS for a module, which is named without ``prmcal.dashboard.``"""
    parts = module.split(".")
    return "views.parts" if parts[:2] == ["views", "parts"] and len(parts) > 2 else parts[0]


def test_rooms_of_the_dashboard_import_in_one_direction() -> None:
    for path in DASHBOARD.rglob("*.py"):
        if path == DASHBOARD / "__init__.py":
            continue
        own = room_of(".".join(path.relative_to(DASHBOARD).with_suffix("").parts))
        prefix = "prmcal.dashboard."
        others = {room_of(name.removeprefix(prefix)) for name in imported(path) if name.startswith(prefix)}
        assert others <= ROOMS[own] | {own}, f"{path} imports {others}"


def test_pages_do_not_import_each_other() -> None:
    for path in (DASHBOARD / "views").glob("*.py"):
        siblings = [
            name for name in imported(path) if room_of(name.removeprefix("prmcal.dashboard.")) == "views"
        ]
        assert siblings == [], f"{path} imports {siblings}"
