"""The folders of the dashboard import each other in one direction."""

from __future__ import annotations

from tests.conftest import ROOT
from tests.test_imports import imported

DASHBOARD = ROOT / "dashboard"
# For each folder, and for each module beside the folders, what it may import from the others.
ROOMS: dict[str, set[str]] = {
    "data": set(),
    "formats": set(),
    "charts": {"formats"},
    "controls": {"data", "formats", "charts"},
    "views": {"controls", "charts", "formats", "data"},
    "app": {"views", "controls", "formats", "data"},
    "script": {"app"},
    "__main__": {"app", "views"},
}


def room_of(module: str) -> str:
    """The key in ROOMS for a module, which is named without ``prmcal.dashboard.``"""
    return module.partition(".")[0]


def test_rooms_of_the_dashboard_import_in_one_direction() -> None:
    for path in DASHBOARD.rglob("*.py"):
        if path == DASHBOARD / "__init__.py":
            continue
        own = room_of(".".join(path.relative_to(DASHBOARD).with_suffix("").parts))
        prefix = "prmcal.dashboard."
        others = {room_of(name.removeprefix(prefix)) for name in imported(path) if name.startswith(prefix)}
        assert others <= ROOMS[own] | {own}, f"{path} imports {others}"
